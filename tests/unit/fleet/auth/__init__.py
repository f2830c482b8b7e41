"""Keys, roles and their tables."""
