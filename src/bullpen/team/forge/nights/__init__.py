"""One pull request for all that our merge queue merged in a night."""
