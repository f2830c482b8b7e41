"""The pages of a team in the terminal: members, tasks, feeds, requests."""
