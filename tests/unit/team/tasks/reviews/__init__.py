"""Rules of reviews."""
