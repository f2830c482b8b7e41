"""The event log of a team: replaying it, and which agent an event concerns."""
