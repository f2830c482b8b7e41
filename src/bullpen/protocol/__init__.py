"""Shapes on disk and on the wire: records, payloads, names and ids. No I/O, no rules."""
