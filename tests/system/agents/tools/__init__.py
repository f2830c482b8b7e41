"""Tools that start commands."""
