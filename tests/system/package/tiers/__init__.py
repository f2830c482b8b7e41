"""The tests keep the promises of their tiers."""
