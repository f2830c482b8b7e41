"""The NATS store under contention."""
