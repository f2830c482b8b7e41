"""Any program that speaks the Agent Client Protocol, as the one who takes an agent's turns."""
