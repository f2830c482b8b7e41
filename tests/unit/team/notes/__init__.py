"""Notes of a team."""
