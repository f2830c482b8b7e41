"""Teams: their rules, and every operation on them."""
