"""The input line: what is typed, what it may mean, and what waits for an answer."""
