"""What an agent of ours can do: files, a shell, and its team."""
