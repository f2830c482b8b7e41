"""The commands of `bullpen eval`."""
