"""Who may do what, where it needs servers and processes."""
