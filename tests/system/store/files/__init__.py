"""Changes to files are noticed."""
