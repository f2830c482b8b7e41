"""The sandbox: what a program that runs for an agent can reach."""
