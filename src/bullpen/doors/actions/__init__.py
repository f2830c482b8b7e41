"""What a person does to a team, whichever door it comes through."""
