"""The agents of a team, and who of them is alive."""
