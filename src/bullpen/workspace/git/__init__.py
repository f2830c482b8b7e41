"""Runs git and reads repositories."""
