"""Real programs load and use the plugin and the extension."""
