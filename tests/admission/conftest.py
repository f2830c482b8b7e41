"""A team with room for agents, as for the tests of agents."""

from crew_fixtures import place

__all__ = ["place"]
