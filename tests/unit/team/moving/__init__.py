"""Moving a team to another store."""
