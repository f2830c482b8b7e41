"""A checkout that several agents share."""
