"""Skills: which an agent has, what its requests say of them, and what loading one returns."""
