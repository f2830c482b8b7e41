"""Puts everything together: settings, stores, and an app that runs agents."""
