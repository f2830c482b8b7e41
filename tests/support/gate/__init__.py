"""How the gate plays tests: in which order, where, and what it writes down of them."""
