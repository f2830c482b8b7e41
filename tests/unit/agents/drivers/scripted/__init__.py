"""Scripts and the driver that plays them."""
