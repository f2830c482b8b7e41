"""The table of identities: every operation, by everybody, through every door."""
