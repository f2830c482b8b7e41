"""What Bullpen knows about the agent programs of other vendors. Mostly data."""
