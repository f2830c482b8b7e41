"""A team with room for agents that have hooks."""

from support.crew_fixtures import crew, place

__all__ = ["crew", "place"]
