"""Verdicts on tool calls: rules, paths, command lines."""
