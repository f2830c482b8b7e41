"""Operations and rules of a team."""
