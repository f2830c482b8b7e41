"""The rules of the sandbox, without a process."""
