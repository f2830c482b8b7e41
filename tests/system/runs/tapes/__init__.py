"""The demo plays and leaves nothing behind."""
