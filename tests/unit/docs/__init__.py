"""Pages that are read, not run: links, tables, completeness."""
