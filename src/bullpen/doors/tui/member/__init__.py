"""The chosen member: what it says and does, its changes, messages and plan."""
