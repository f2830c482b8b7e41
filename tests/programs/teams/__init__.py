"""Teams of real programs."""
