"""A task is done when its checks were seen to pass."""
