"""Team files, backlogs, templates."""
