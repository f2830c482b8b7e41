"""Doors: they parse, call one operation and render."""
