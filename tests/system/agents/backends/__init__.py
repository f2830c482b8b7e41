"""Agents outlive whoever started them, and end for good."""
