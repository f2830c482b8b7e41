"""Hooks run as commands."""
