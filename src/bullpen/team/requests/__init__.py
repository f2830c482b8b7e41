"""Requests, approvals and plans."""
