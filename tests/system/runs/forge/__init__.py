"""The forge loop of a run."""
