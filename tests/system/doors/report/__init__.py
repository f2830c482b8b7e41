"""Reports by command."""
