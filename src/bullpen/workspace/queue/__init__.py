"""The merge queue: finished work, rebased, tested and landed one after another."""
