"""Adding our MCP server to another program's configuration."""
