"""Limits, budgets and usage."""
