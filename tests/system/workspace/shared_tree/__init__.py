"""In a shared tree nobody's edits are taken."""
