"""Every backend keeps the backend contract."""
