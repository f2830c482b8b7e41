"""Commands that open another door: tui, web, mcp, telemetry."""
