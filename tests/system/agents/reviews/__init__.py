"""Reviews as checks, by reviewers in processes of their own."""
