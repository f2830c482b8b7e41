"""Bad inputs by the thousand."""
