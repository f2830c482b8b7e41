"""What carries work to a forge, without a forge."""
