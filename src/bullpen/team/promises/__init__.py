"""Promises between members: what they commit to, who relies on it, and whether it is kept."""
