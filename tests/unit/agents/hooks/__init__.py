"""Which hooks run, and what their answers mean."""
