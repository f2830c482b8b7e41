"""Records on disk and on the wire."""
