"""A team on its way to its end."""
