"""Moves a team from one store to another."""
