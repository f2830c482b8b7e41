"""Prove the sandbox on this machine: run probes inside that try to get out."""
