"""The rules of tapes: what is compared, and what is read."""
