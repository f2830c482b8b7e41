"""What an agent may do: rules, paths, shell commands, and the verdict on one tool call."""
