"""Every driver keeps the driver contract."""
