"""What the commit before the move wrote is read, and what it answered is answered, as before."""
