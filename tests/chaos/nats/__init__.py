"""Servers, hosts and networks fail."""
