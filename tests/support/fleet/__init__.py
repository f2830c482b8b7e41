"""Keys, hosts and mirrors to test with."""
