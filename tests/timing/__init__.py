"""What judges measured time; played alone with -n 0."""
