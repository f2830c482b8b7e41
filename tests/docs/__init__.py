"""Pages and examples are run with the built wheel."""
