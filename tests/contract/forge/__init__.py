"""The forge contract, on each client that ships with Bullpen."""
