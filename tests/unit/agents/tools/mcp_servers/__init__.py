"""Tools that an agent can call."""
