"""Repositories whose settings name programs: none of them may run."""
