"""Where a team came from, and moving it to another store."""
