"""Agents, drivers and tools to test with."""
