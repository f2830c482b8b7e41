"""Text that others wrote, as a model may read it."""
