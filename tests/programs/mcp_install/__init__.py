"""Real programs read what an install wrote."""
