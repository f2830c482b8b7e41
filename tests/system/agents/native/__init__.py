"""The native driver, the limiter, agent definitions and the mock models."""
