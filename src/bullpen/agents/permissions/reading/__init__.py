"""Commands that only read inside the project: they need no rule and no answer."""
