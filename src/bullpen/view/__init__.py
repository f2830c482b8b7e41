"""A team as people see it: the same facts and words for every screen and report."""
