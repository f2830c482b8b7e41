"""The report of a run: its goal, its result, and who did and decided what."""
