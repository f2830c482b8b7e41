"""Where an agent's rights and instructions come from: definitions, settings, trust, its parent."""
