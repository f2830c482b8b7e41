"""A store reached through a local socket: one host process holds it, local agents share it."""
