"""Runs inside the sandbox and tries to get out, once in every way it knows.

It runs as a file under any Python, so it imports only the standard library. The first argument is a
file with JSON: the places to try. It prints one JSON object: what came of each attempt. One is
"open" if it got through. None of them does harm if it does.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import glob
import json
import os
import platform
import pty
import resource
import socket
import stat
import sys
from collections.abc import Callable
from typing import Any

CLOSED, OPEN = "closed", "open"
_WAIT_S = 3.0
_CALLS = {
    "x86_64": {"add_key": 248, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323},
    "aarch64": {"add_key": 217, "bpf": 280, "perf_event_open": 241, "userfaultfd": 282},
}
_URING = {"io_uring_setup": 425}
_NEW_USER, _TIOCSTI, _VSOCK, _PACKET, _ALG = 0x10000000, 0x5412, 40, 17, 38
_KERNEL_WRITES = (
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/hostname",
    "/proc/sys/vm/drop_caches",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sysrq-trigger",
    "/proc/irq/default_smp_affinity",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/power/state",
)
_KERNEL_READS = ("/proc/kcore", "/proc/kmsg", "/dev/mem", "/dev/kmsg", "/etc/shadow")
_VARIABLES = (
    *("SSH_AUTH_SOCK", "TMUX", "TMUX_TMPDIR", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"),
    *("DOCKER_HOST", "BULLPEN_TMUX_SOCKET"),
)

_libc = ctypes.CDLL(None, use_errno=True)


class Attempts:
    """Every attempt, by its kind and name."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts = facts
        self.found: dict[str, tuple[str, str]] = {}

    def attempt(self, name: str, act: Callable[..., object], *args: object) -> None:
        """It is open if it returns something true, and closed if it fails."""
        try:
            got = act(*args)
        except (OSError, ValueError, EOFError) as error:
            self.found[name] = (CLOSED, getattr(error, "strerror", None) or str(error))
        else:
            self.found[name] = (OPEN if got else CLOSED, str(got)[:80])

    def files(self) -> None:
        """Files outside the tree, and those in it that others obey."""
        tree, facts = self.facts["tree"], self.facts
        self.attempt("file: write in the tree", lambda: _write(f"{tree}/made"))
        self.attempt("file: write in its private home", lambda: _write(f"{facts['home']}/made"))
        self.attempt("file: keep a file in its home", lambda: _append(f"{facts['home']}/kept"))
        self.attempt("file: write in /tmp", lambda: _write("/tmp/bullpen-probe-made"))  # noqa: S108
        self.attempt("file: read a key in the user's home", lambda: _read(facts["key"]))
        self.attempt(
            "file: read a key by /proc/1/root", lambda: _read(f"/proc/1/root{facts['key']}")
        )
        self.attempt(
            "file: read a key by /proc/self/cwd",
            lambda: _read(f"/proc/self/cwd/{os.path.relpath(facts['key'], tree)}"),
        )
        self.attempt("file: read the teams", lambda: _read(facts["team_file"]))
        self.attempt(
            "file: read another program's temporary file", lambda: _read(facts["temporary"])
        )
        self.attempt("file: link a key into the tree", lambda: _link(facts["key"], f"{tree}/link"))
        self.attempt("file: write outside the tree", lambda: _write(f"{facts['outside']}/made"))
        for path in ("/", "/etc", "/usr", "/opt", "/var"):
            self.attempt(f"file: write in {path}", _write, f"{path}/bullpen-probe")
        self.attempt("file: list the system's logs", lambda: os.listdir("/var/log"))
        self.attempt("file: change Bullpen itself", lambda: _append(facts["package"]))
        for name in (".git/config", ".git/hooks/pre-commit", ".claude/settings.json", ".bullpen/x"):
            self.attempt(f"file: write {name}", _append, f"{tree}/{name}")
        self.attempt("file: move .git away", lambda: _move(f"{tree}/.git", f"{tree}/old"))
        self.attempt("file: make a device", lambda: _device(f"{tree}/device"))
        self.attempt("file: mount over the tree", lambda: _mount(tree))
        self.attempt("file: unmount the private home", lambda: _called("umount2", facts["home"], 2))
        self.attempt("file: open a disk", lambda: _those(_readable, _disks()))

    def network(self) -> None:
        """Servers of this machine and of private networks, and the hosts on the list."""
        port, allowed = self.facts["port"], self.facts["allowed"]
        self.attempt("network: a server on 127.0.0.1", lambda: _connect("127.0.0.1", port))
        self.attempt("network: a server on localhost", lambda: _connect("localhost", port))
        self.attempt("network: a server on ::1", lambda: _connect("::1", port))
        for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0.0.0.0"):  # noqa: S104
            self.attempt(f"network: {host} by the proxy", _proxied, f"{host}:{port}")
        for host in ("169.254.169.254:80", "10.0.0.1:80", "192.168.0.1:80", "[fd00:ec2::254]:80"):
            self.attempt(f"network: {host} by the proxy", _proxied, host)
        self.attempt(
            "network: a URL of 127.0.0.1 by the proxy", lambda: _fetched("127.0.0.1", port)
        )
        self.attempt("network: UDP to the internet", lambda: _datagram("192.0.2.1"))
        self.attempt("network: raw packets", lambda: socket.socket(2, socket.SOCK_RAW, 1))
        self.attempt("network: packets of an interface", lambda: socket.socket(_PACKET, 3))
        self.attempt("network: the host of a virtual machine", lambda: socket.socket(_VSOCK, 1))
        self.attempt(
            "network: an interface of the machine",
            lambda: [name for _, name in socket.if_nameindex() if name not in self.facts["links"]],
        )
        self.attempt("network: an allowed host", lambda: _connect("127.0.0.1", allowed))
        self.attempt(
            "network: an allowed host by the proxy", lambda: _proxied(f"127.0.0.1:{allowed}")
        )

    def sockets(self) -> None:
        """Sockets of programs outside, and the one of the runner."""
        for name, path in self.facts["sockets"].items():
            self.attempt(f"socket: {name}", _joined, path)
        self.attempt("socket: an abstract one", lambda: _joined("\0" + self.facts["abstract"]))
        self.attempt("socket: of the runner", lambda: _joined(self.facts["door"]))
        self.attempt(
            "socket: variables that lead to one", lambda: [v for v in _VARIABLES if v in os.environ]
        )
        found = [path for top in ("/run", "/var/run", "/tmp") for path in _sockets(top)]  # noqa: S108
        self.attempt(
            "socket: any in /run and /tmp", lambda: [at for at in found if at != self.facts["door"]]
        )

    def processes(self) -> None:
        """Processes outside, and rights of its own."""
        facts = self.facts
        self.attempt("process: see one outside", lambda: _marked(facts["mark"]))
        self.attempt(
            "process: signal one outside", lambda: _signalled(facts["witness"], facts["mark"])
        )
        self.attempt(
            "process: trace one outside", lambda: _called("ptrace", 16, facts["witness"], 0, 0)
        )
        for name in ("user", "pid", "net", "ipc", "uts", "mnt"):
            self.attempt(
                f"process: share the {name} namespace",
                _shares,
                name,
                facts["namespaces"][name],
            )
        for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
            self.attempt(f"process: {name}", _capabilities, name)
        self.attempt("process: gain rights by setuid", lambda: _status("NoNewPrivs") != "1")
        self.attempt("process: a user namespace of its own", lambda: _in_child(_unshared))
        self.attempt("process: write a core dump", lambda: resource.getrlimit(4)[1] not in (0, 1))
        self.attempt("process: type into a terminal", _typed)
        self.attempt("process: change the root directory", lambda: _in_child(_rooted))

    def kernel(self) -> None:
        """Settings and memory of the kernel, and calls that lead around namespaces."""
        for path in _KERNEL_WRITES:
            self.attempt(f"kernel: write {path}", _opened, path, os.O_WRONLY)
        for path in _KERNEL_READS:
            self.attempt(f"kernel: read {path}", _first_byte, path)
        self.attempt("kernel: write a control group", _group)
        self.attempt("kernel: rename the machine", lambda: _called("sethostname", b"probe", 5))
        self.attempt("kernel: its cryptography by AF_ALG", lambda: socket.socket(_ALG, 5))
        for name, number in {**_CALLS.get(platform.machine(), {}), **_URING}.items():
            self.attempt(f"kernel: call {name}", _syscall, number)


def _write(path: str) -> bool:
    with open(path, "w", encoding="utf-8") as file:
        file.write("probe")
    os.unlink(path)
    return True


def _append(path: str) -> bool:
    os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT))
    return True


def _read(path: str, *, whole: bool = False) -> bytes:
    with open(path, "rb") as file:
        return file.read(-1 if whole else 40)


def _readable(path: str) -> bool:
    _read(path)
    return True


def _link(path: str, target: str) -> bool:
    os.link(path, target)
    return True


def _move(path: str, target: str) -> bool:
    os.rename(path, target)
    os.rename(target, path)
    return True


def _device(path: str) -> bool:
    os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(7, 0))
    return True


def _disks() -> list[str]:
    return glob.glob("/dev/[svx]d[a-z]") + glob.glob("/dev/nvme*")


def _called(name: str, *args: Any) -> bool:
    words = [arg.encode() if isinstance(arg, str) else arg for arg in args]
    if getattr(_libc, name)(*words) == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return True


def _mount(path: str) -> bool:
    return _called("mount", b"none", path, b"tmpfs", ctypes.c_ulong(0), None)


def _syscall(number: int) -> bool:
    """Whether the kernel looks at a call at all: it complains about its arguments then."""
    ctypes.set_errno(0)
    _libc.syscall(ctypes.c_long(number), None, None, None, None, None)
    return ctypes.get_errno() != errno.ENOSYS


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _first_byte(path: str) -> bytes:
    return os.read(_opened(path, os.O_RDONLY), 1)


def _shares(name: str, theirs: str) -> bool:
    return os.readlink(f"/proc/self/ns/{name}") == theirs


def _capabilities(name: str) -> int:
    return int(_status(name), 16)


def _group() -> bool:
    own = "/sys/fs/cgroup/bullpen-probe"
    os.mkdir(own)
    os.rmdir(own)
    return True


def _connect(host: str, port: int) -> bool:
    with socket.create_connection((host, port), _WAIT_S) as line:
        return line.recv(5) == b"hello"


def _proxy() -> socket.socket:
    place = os.environ.get("HTTPS_PROXY", "").rpartition("/")[2]
    host, _, port = place.partition(":")
    if not port:
        raise ValueError("there is no proxy")
    return socket.create_connection((host, int(port)), _WAIT_S)


def _proxied(place: str) -> bool:
    with _proxy() as line:
        line.sendall(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode())
        head = line.recv(500)
        if b" 200 " not in head:
            raise ValueError(head.splitlines()[0].decode("latin-1") if head else "no answer")
        return True


def _fetched(host: str, port: int) -> bool:
    with _proxy() as line:
        line.sendall(f"GET http://{host}:{port}/ HTTP/1.1\r\nHost: a.org\r\n\r\n".encode())
        head = line.recv(500)
        return head.startswith(b"hello") or b" 200 " in head


def _datagram(address: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.sendto(b"probe", (address, 53))
    return True


def _joined(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(_WAIT_S)
        line.connect(path)
    return True


def _sockets(top: str) -> list[str]:
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(top) for name in names]
    return _those(lambda path: stat.S_ISSOCK(os.lstat(path).st_mode), paths)


def _marked(mark: str) -> list[str]:
    own = f"/proc/{os.getpid()}/cmdline"
    others = [path for path in glob.glob("/proc/[0-9]*/cmdline") if path != own]
    return _those(lambda path: mark.encode() in _read(path, whole=True), others)


def _those(test: Callable[[str], bool], paths: list[str]) -> list[str]:
    """The paths that pass a test; one that is closed, or gone meanwhile, hides no other."""
    found = []
    for path in paths:
        with contextlib.suppress(OSError):
            if test(path):
                found.append(path)
    return found


def _signalled(pid: int, mark: str) -> bool:
    os.kill(pid, 0)
    return bool(_marked(mark))


def _status(name: str) -> str:
    with open("/proc/self/status", encoding="utf-8") as file:
        rows = dict(line.split(":", 1) for line in file)
    return rows[name].strip()


def _in_child(act: Callable[[], object]) -> bool:
    """Whether something can be done in a process of its own."""
    pid = os.fork()
    if pid == 0:
        try:
            act()
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


def _unshared() -> None:
    _called("unshare", _NEW_USER)


def _rooted() -> None:
    os.chroot("/usr")


def _typed() -> bool:
    ours, theirs = pty.openpty()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        try:
            fcntl.ioctl(theirs, 0x540E, 0)
            fcntl.ioctl(theirs, _TIOCSTI, b"x")
        except OSError as error:
            # Newer kernels refuse it by themselves, with another error.
            os._exit(1 if error.errno == errno.EPERM else 0)
        os._exit(0)
    os.close(ours)
    return os.waitpid(pid, 0)[1] == 0


def main() -> int:
    """Try everything and print what came of it."""
    attempts = Attempts(json.loads(_read(sys.argv[1], whole=True)))
    attempts.files()
    attempts.network()
    attempts.sockets()
    attempts.processes()
    attempts.kernel()
    print(json.dumps(attempts.found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
