"""Admission and the roster of agents."""
