"""Traces, metrics and logs of a team, made from its log: nothing runs inside the agents."""
