"""Deliveries of webhooks: what they may say, and how a hint reaches the worker."""
