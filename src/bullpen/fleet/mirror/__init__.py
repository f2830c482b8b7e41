"""Mirrors a team of another store into a home, for programs that only know files."""
