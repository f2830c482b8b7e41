"""A team as one agent that speaks the Agent Client Protocol: `bullpen acp`."""
