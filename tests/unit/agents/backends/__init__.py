"""Tests of backends without processes."""
