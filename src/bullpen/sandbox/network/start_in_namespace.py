"""Runs in the new network namespace before the sandbox: open its listeners, then start it.

It runs as a file for every sandbox with a network, so it imports only the standard library. The
listeners are sent to the runner, which accepts on them: no process inside relays anything.

    start_in_namespace.py SOCKET LISTENERS HOSTS ARGV...

SOCKET is an inherited socket to the runner, LISTENERS is `ADDRESS PORT` pairs separated by commas,
and HOSTS is the text of /etc/hosts for the sandbox, which is given to ARGV as file descriptor 8.
"""

from __future__ import annotations

import _socket
import array
import os
import sys

HOSTS_FD = 8


def main(words: list[str]) -> None:
    """Open the listeners, hand them over, and become the sandbox."""
    runner = _socket.socket(fileno=int(words[0]))
    listeners = []
    for place in words[1].split(","):
        address, port = place.split(" ")
        family = _socket.AF_INET6 if ":" in address else _socket.AF_INET
        listener = _socket.socket(family, _socket.SOCK_STREAM)
        listener.bind((address, int(port)))
        listener.listen(128)
        listeners.append(listener)
    fds = array.array("i", [each.fileno() for each in listeners])
    runner.sendmsg([b"."], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fds)])
    for each in (runner, *listeners):
        each.close()
    hosts = os.memfd_create("hosts")
    os.write(hosts, words[2].encode())
    os.lseek(hosts, 0, os.SEEK_SET)
    if hosts != HOSTS_FD:
        os.dup2(hosts, HOSTS_FD, inheritable=True)
    os.execv(words[3], words[3:])  # noqa: S606 - no shell, our own words


if __name__ == "__main__":
    main(sys.argv[1:])
