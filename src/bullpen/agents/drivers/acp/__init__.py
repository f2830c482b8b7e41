"""The ACP driver: runs any program that speaks the Agent Client Protocol."""
