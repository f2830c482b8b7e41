"""Work is merged and the target stays green."""
