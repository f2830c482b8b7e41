"""The event log of a team in files: its newest part, its older parts and digests of both."""
