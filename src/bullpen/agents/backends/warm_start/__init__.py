"""Fork agents from a process that has already imported what they need. Linux only."""
