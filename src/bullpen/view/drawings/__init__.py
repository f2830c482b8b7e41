"""Drawings of a team as SVG: the graph of its tasks, who did what when, and its spending."""
