"""Shipped contract suites: what every store must keep, to be run by whoever writes one."""
