"""Where teams are stored: the contract, and the stores that implement it."""
