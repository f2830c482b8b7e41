"""Reviews as checks: who reviews, what a verdict is, and when a person decides."""
