"""The parts of the NATS store that need no server."""
