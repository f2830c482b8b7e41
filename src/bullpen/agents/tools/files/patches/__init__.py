"""The tool apply_patch, and how its patches are read."""
