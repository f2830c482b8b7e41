"""Add our MCP server to the configuration of another program."""
