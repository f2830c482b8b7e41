"""The tests' own checkers, checked."""
