"""Whole teams of native agents whose models are weak."""
