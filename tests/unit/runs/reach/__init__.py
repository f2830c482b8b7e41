"""What happens while nobody watches, in simulated time."""
