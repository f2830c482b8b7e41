"""What is read of a forge, how often, and what follows from it."""
