"""A team in a terminal: who does what, what waits, and the answers to it."""
