"""The network of a sandbox: a list of hosts, reached through a proxy outside."""
