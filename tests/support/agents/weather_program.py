"""An MCP server of the SDK as a program: over stdio, or over HTTP on a port.

Run it with `stdio`, `http PORT`, or a way to misbehave.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("weather")


@server.tool()
def forecast(city: str) -> str:
    """Tell the weather."""
    return f"rain in {city}"


@server.tool()
def environment() -> str:
    """Show the names of all variables."""
    return " ".join(sorted(os.environ))


@server.tool()
def secret() -> str:
    """Show a variable that the definition sets."""
    return os.environ.get("WEATHER_KEY", "none")


@server.tool()
def crash() -> str:
    """End in the middle of a call."""
    os._exit(3)


@server.tool()
def write(path: str) -> str:
    """Write a file."""
    Path(path).write_text("x", encoding="utf-8")
    return "written"


@server.tool()
def header(ctx: Context) -> str:
    """Show the header with the key."""
    return str((ctx.headers or {}).get("x-weather-key"))


def main(how: str, *rest: str) -> None:
    """Serve, or misbehave."""
    if pid_file := os.environ.get("PID_FILE"):
        Path(pid_file).write_text(f"{os.getpid()}\n", encoding="utf-8")
    if how == "http":
        server.run("streamable-http", port=int(rest[0]), stateless_http=True)
    elif how == "silent":
        time.sleep(600)
    elif how == "flood":
        while True:
            os.write(1, b"x" * 65536)
    elif how == "dies":
        print("the disk is full", file=sys.stderr)
        sys.exit(1)
    elif how == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            time.sleep(600)
        server.run("stdio")
        time.sleep(600)
    elif how == "chatty":
        print("Welcome to the weather!", flush=True)
        server.run("stdio")
    else:
        server.run("stdio")


if __name__ == "__main__":
    main(*sys.argv[1:])
