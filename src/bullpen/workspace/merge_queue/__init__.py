"""The merge queue: rebases, tests and merges finished work, one after another."""
