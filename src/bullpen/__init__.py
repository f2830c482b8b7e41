"""Bullpen: teams of coding agents that do not lose messages, tasks or work."""
