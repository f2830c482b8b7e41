"""Screens, pages and logs to test with."""
