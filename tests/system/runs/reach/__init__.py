"""Team files run to their end."""
