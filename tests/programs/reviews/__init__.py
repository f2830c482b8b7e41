"""Real programs as reviewers."""
