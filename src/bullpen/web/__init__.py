"""A team in a browser: pages that the server draws, and what changed sent after them."""
