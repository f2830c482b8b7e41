"""A team with room for agents."""

from support.crew_fixtures import crew, place

__all__ = ["crew", "place"]
