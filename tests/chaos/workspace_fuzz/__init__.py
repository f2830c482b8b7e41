"""Random repositories: no byte of a tree is lost."""
