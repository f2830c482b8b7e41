"""Whole teams in simulated time: one seed is one history, with faults at every await."""
