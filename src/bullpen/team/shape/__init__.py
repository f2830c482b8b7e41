"""Whether a task is worth a team: the choice before the work, and what it saved afterwards."""
