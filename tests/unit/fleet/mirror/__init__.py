"""The mirror of a team."""
