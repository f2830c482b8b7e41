"""Keys open what their role allows, at real servers."""
