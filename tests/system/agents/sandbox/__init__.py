"""Nothing leaves the sandbox."""
