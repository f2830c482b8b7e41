"""A team as its log tells it."""
