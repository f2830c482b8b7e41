"""What an agent does with files: read, change, search, and the files in its prompt."""
