"""Watches a team until its end: restarts agents, merges work, sends notices, sums up."""
