"""Agents are killed at any moment."""
