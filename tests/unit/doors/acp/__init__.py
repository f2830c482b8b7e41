"""A team as one agent over ACP: what is translated."""
