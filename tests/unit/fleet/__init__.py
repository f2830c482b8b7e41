"""Hosts, keys, servers and mirrors."""
