"""Importing the package does nothing."""
