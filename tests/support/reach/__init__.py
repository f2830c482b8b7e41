"""Receivers of notices on this machine, in the place of services and of browsers."""
