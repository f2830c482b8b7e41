"""Machines that sleep, processes that are stopped and clocks that are set, on real programs."""
