"""Teams move between stores by command."""
