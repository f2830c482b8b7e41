"""Doors: command line, terminal screen, dashboard, MCP, reports, telemetry."""
