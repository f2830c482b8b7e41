"""A team with room for agents, as for the tests of agents."""

from support.crew_fixtures import crew, place

__all__ = ["crew", "place"]
