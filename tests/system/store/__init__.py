"""The file store beside other programs."""
