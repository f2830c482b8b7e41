"""The worker of a forge is killed at any write."""
