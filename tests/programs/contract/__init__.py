"""Real programs keep the driver contract."""
