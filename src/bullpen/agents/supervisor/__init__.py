"""Start, check and stop the agents of a team."""
