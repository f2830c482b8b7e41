"""The loop of one agent, with turns that are functions of a test."""
