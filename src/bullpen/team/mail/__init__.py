"""Mail between members."""
