"""Mail as a model reads it: sorted, framed, and introduced by a briefing."""
