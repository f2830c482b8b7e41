"""The team in one look: the header, the members and the tasks."""
