"""What our own merge queue merged, on its way to the forge."""
