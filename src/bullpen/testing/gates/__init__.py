"""The gate of other vendors' programs: what they ask about, and what they are refused."""
