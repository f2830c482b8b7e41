"""The rule language of permissions."""
