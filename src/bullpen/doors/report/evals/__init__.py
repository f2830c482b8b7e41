"""The report of an eval: Markdown, and HTML with plots."""
