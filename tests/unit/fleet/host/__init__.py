"""When a host is lost."""
