"""Secrets and other parts of the operating system that need no process."""
