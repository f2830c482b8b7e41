"""Other programs, hosts and races around a store."""
