"""The terminal of a command: what happens when it is closed, and how a screen draws on it."""
