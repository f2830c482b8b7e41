"""The shared task list: operations and rules."""
