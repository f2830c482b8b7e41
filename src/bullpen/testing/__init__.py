"""Shipped contract suites."""
