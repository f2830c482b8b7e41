"""The doors as people and programs use them."""
