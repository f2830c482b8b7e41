"""NATS servers: their configurations, their processes, what they say of themselves, backups."""
