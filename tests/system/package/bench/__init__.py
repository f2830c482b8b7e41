"""Benchmarks run from start to end."""
