"""A GitHub on this machine for tests, as strict as its published descriptions."""
