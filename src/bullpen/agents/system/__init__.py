"""Operating system services: processes, environment, sandbox, secrets, sockets, commands."""
