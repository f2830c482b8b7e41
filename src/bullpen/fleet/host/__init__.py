"""The host process: one per machine, between its agents and the servers."""
