"""The contract suite for clients of forges, and a GitHub on this machine for tests."""
