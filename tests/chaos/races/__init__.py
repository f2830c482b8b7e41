"""Many processes on one team at once."""
