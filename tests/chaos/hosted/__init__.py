"""Hosts and clients in processes that are killed."""
