"""The ACP driver's reading of calls and rules."""
