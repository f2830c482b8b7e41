"""Requests, approvals, plans."""
