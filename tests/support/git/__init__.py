"""Repositories to test with."""
