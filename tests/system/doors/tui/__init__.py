"""The terminal screen at a real terminal."""
