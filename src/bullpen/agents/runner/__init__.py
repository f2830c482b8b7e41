"""The runner: the loop that gives one agent its turns, and its parts."""
