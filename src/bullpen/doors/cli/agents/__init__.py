"""Commands about agents: spawn, stop, ps, logs, attach, drivers."""
