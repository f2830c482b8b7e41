"""Commands in processes and terminals of their own."""
