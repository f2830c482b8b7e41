"""Telemetry reaches a collector."""
