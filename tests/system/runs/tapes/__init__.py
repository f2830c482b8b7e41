"""Tapes: recorded runs, replayed against today's code."""
