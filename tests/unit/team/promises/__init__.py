"""Rules and operations of promises."""
