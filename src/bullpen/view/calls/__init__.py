"""What a call is about and what came of it, in words."""
