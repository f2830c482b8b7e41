"""The log of one team on NATS."""
