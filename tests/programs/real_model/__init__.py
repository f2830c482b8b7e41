"""A real model: llama.cpp's server with a model of 135 million parameters, both as wheels."""
