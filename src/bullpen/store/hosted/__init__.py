"""A store behind a local socket: one host process opens it, and local agents share it."""
