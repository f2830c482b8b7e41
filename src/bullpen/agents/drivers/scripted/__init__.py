"""The scripted driver: an agent that follows a script."""
