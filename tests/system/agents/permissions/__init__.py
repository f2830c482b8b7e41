"""Verdicts on command lines against the real bash."""
