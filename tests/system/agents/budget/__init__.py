"""Limits stop an agent and keep its work."""
