"""Teams run to their end."""
