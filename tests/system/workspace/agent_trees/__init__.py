"""Agents in git trees of their own."""
