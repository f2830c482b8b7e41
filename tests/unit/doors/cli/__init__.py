"""Commands, run in the process of the test."""
