"""Mirrors as processes and on NATS."""
