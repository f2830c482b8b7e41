"""The files of the demo."""
