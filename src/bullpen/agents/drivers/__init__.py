"""Which program takes an agent's turns."""
