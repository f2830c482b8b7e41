"""NATS servers as processes."""
