"""The dashboard: pages drawn by the server, and streams that keep open pages up to date."""
