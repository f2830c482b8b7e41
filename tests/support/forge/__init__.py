"""Forges for tests."""
