"""Commands that run a team to its end: run, up, init, demo, report, summary."""
