"""What an agent may do: rules, paths, shell commands, and the decision on a tool call."""
