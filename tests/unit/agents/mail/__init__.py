"""Mail as a model reads it."""
