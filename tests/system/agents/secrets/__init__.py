"""A planted secret is found nowhere."""
