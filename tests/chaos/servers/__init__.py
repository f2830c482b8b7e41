"""Servers are upgraded and their disks lie."""
