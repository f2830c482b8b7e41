"""Tests of the tools that reach the web."""
