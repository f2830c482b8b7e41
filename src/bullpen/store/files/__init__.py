"""The store that keeps teams as plain files."""
