"""The machines that run agents of a team: their records, and how to reach them."""
