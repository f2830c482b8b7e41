"""Whole nights, with everything that can go wrong."""
