"""Tools for an agent's own plan: plan mode, its todo list, and questions to a person."""
