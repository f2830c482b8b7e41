"""The MCP server's schemas and prompts."""
