"""Drivers with processes of their own."""
