"""Runs teams to their end: goals, team files, and the code that watches."""
