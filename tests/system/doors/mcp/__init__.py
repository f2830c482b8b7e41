"""The MCP server as a process, with the SDK's client."""
