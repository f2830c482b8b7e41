"""Measures arms, such as one agent and a team, on tasks with hidden tests: `bullpen eval`."""
