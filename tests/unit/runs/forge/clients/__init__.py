"""Clients of forges, on answers that a transport gives."""
