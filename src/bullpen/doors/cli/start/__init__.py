"""Commands to begin with: the overview, your settings, the documentation."""
