"""One page of a run: what is on it, and that nothing on it is markup but our own."""
