"""Records, payloads, names and ids as they are on disk and on the wire. No I/O, no rules."""
