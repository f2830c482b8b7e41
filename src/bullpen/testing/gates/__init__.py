"""Suites for gates: what other vendors' programs ask about, and what tools of packages promise."""
