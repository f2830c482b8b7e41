"""What commands print: pages, tables, live screens."""
