"""The tools of MCP servers, for native agents. Everything that a server says is untrusted."""
