"""The drivers: the programs that take an agent's turns."""
