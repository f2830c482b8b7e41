"""Tapes: the model answers of a run with their requests, to run it again without a model."""
