"""Where agents run: in this process, in one of their own, or in a tmux pane."""
