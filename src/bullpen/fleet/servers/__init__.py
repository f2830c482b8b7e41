"""NATS servers: configurations, processes, monitoring, backups."""
