"""Team files and pages to test with."""
