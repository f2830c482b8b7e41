"""Real processes, tmux, git and servers on this machine; one folder for each promise."""
