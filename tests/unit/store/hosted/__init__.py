"""The store behind a socket, with both ends in one process."""
