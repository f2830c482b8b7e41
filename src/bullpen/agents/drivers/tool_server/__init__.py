"""The team tools for another vendor's program, served over MCP by the runner."""
