"""One page of a run, for people: what was wanted, what came of it, who did and decided what."""
