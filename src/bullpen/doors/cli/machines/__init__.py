"""Commands about machines: server, host, hosts, auth."""
