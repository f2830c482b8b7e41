"""Programs of other vendors at pinned versions, offline."""
