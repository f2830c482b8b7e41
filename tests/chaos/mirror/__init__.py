"""A mirror is killed anywhere."""
