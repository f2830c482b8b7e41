"""Reaches the person: notices to phones and chats, pushes to browsers, and links that answer."""
