"""Hosts, keys, servers and mirrors on this machine."""
