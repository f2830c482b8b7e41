"""The machines that run agents of one team: what they say of themselves, and how to ask them."""
