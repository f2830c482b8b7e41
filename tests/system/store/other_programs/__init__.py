"""Other programs at work on the same team: with locks, without locks, and killed."""
