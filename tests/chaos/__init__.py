"""Kills, faults, fuzz and nights: bounded here, whole at night."""
