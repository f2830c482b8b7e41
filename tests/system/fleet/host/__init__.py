"""Hosts start, lose and hand over agents."""
