"""Chaos on NATS: hosts, faults, diaries and the check at the end."""
