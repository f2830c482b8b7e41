"""Budgets as rules."""
