"""The terminal screens: follow a team and answer its requests."""
