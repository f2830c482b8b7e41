"""The backends: agents run in this process, in their own process or in a tmux pane."""
