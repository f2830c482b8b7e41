"""The inner loop: no process, no server, no real wait. The folders mirror the source."""
