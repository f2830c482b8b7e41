"""Estimates what a team file would do and cost, without starting anything."""
