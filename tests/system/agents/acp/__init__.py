"""Programs that speak ACP are driven."""
