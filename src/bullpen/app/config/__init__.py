"""Defaults for commands: the keys of `config.toml`, and the files and variables that set them."""
