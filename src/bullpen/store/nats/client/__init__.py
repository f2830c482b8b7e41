"""What the NATS client library lacks."""
