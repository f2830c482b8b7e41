"""Rules for issues that become tasks and for work that becomes pull requests."""
