"""Who works: the runner that gives an agent its turns, where it runs, and which program it is."""
