"""Parse shell command lines as bash does."""
