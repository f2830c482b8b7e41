"""The store behind a socket, with a client that does not read."""
