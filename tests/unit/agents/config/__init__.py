"""Definitions, settings, trust, and what an agent inherits."""
