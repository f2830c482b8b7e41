"""Who may do what, through every door that needs no process."""
