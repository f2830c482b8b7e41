"""Jupyter notebooks: their cells as models see and change them."""
