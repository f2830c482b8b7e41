"""Terminals that are closed, and terminals that are given away for a while."""
