"""A Gitea on loopback, with a database of its own, for the tests of one worker."""

from __future__ import annotations

import getpass
import json
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from .gitea_build import VERSION, program, source

START_S = 120.0
STOP_S = 30.0

CONFIG = """\
RUN_MODE = prod
RUN_USER = {user}
APP_NAME = Forge
WORK_PATH = {folder}

[server]
HTTP_ADDR = 127.0.0.1
HTTP_PORT = {port}
ROOT_URL = http://127.0.0.1:{port}/
STATIC_ROOT_PATH = {source}
DISABLE_SSH = true
OFFLINE_MODE = true
LFS_START_SERVER = false

[database]
DB_TYPE = sqlite3
PATH = {folder}/gitea.db
SQLITE_TIMEOUT = 20000

[security]
INSTALL_LOCK = true
SECRET_KEY = {secret}
INTERNAL_TOKEN = {internal}
PASSWORD_HASH_ALGO = pbkdf2$100$50

[oauth2]
ENABLED = false

[service]
DISABLE_REGISTRATION = true
ENABLE_NOTIFY_MAIL = false
DEFAULT_ALLOW_CREATE_ORGANIZATION = true

[mailer]
ENABLED = false

[cron]
ENABLED = false

[cron.update_checker]
ENABLED = false

[repository]
DEFAULT_BRANCH = main
DEFAULT_PRIVATE = public

[indexer]
ISSUE_INDEXER_TYPE = db
REPO_INDEXER_ENABLED = false

[actions]
ENABLED = true

[webhook]
ALLOWED_HOST_LIST = loopback
DELIVER_TIMEOUT = 5

[session]
PROVIDER = memory

[log]
MODE = file
LEVEL = Error
ROOT_PATH = {folder}/log
"""


class NotStarted(Exception):
    """Gitea ended, or did not answer in time."""


class GiteaServer:
    """A running Gitea. The account `root` may do everything; `token` is its token."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.url = f"http://127.0.0.1:{port}"
        self.token = ""
        self._names = 0
        self.http = httpx2.Client(
            base_url=f"{self.url}/api/v1", timeout=60, trust_env=False, follow_redirects=False
        )

    def command(self, *arguments: str) -> str:
        """Run one of its own commands; return what it printed."""
        done = subprocess.run(
            [str(program()), "--config", str(self.folder / "app.ini"), *arguments],
            env=environment(self.folder),
            check=False,
            text=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            raise NotStarted(f"gitea {' '.join(arguments[:3])} failed: {done.stdout}{done.stderr}")
        return done.stdout

    def account(self, login: str, *, admin: bool = False) -> str:
        """Create an account; return a token with all rights. The password is the name, twice."""
        made = ("--username", login, "--password", login * 2, "--email", f"{login}@forge.invalid")
        rights = ("--admin",) if admin else ()
        self.command("admin", "user", "create", *made, "--must-change-password=false", *rights)
        return self.new_token(login)

    def new_token(self, login: str, *, name: str = "tests", scopes: str = "all") -> str:
        """Return a new token of an account."""
        named = ("--username", login, "--token-name", name, "--scopes", scopes, "--raw")
        return self.command("admin", "user", "generate-access-token", *named).strip().split()[-1]

    def unused(self, stem: str) -> str:
        """Return a name that no other test on this server has."""
        self._names += 1
        return f"{stem}-{self._names}"

    def call(
        self, method: str, path: str, body: object = None, *, token: str = ""
    ) -> httpx2.Response:
        """Call its API as `root`, or by another token; raise if that fails."""
        answer = self.http.request(
            method,
            path,
            content=None if body is None else json.dumps(body),
            headers={
                "Authorization": f"token {token or self.token}",
                "Content-Type": "application/json",
            },
        )
        if not answer.is_success:
            raise AssertionError(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of its processes: nothing of the person's own settings."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GITEA_I_AM_BEING_UNSAFE_RUNNING_AS_ROOT": "true",
    }


@contextmanager
def running(folder: Path) -> Iterator[GiteaServer]:
    """Yield a new server with its data in `folder`. It is stopped afterwards; the data stays."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    config = CONFIG.format(
        user=getpass.getuser(),
        folder=folder,
        port=port,
        source=source(),
        secret=secrets.token_hex(32),
        internal=secrets.token_hex(48),
    )
    (folder / "app.ini").write_text(config, encoding="utf-8")
    server = GiteaServer(folder, port)
    server.command("migrate")
    server.token = server.account("root-admin", admin=True)
    said = folder / "said.txt"
    with said.open("wb") as out:
        process = subprocess.Popen(
            [str(program()), "--config", str(folder / "app.ini"), "web"],
            env=environment(folder),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until_ready(server, process, said)
        yield server
    finally:
        server.http.close()
        stop(process)


def wait_until_ready(server: GiteaServer, process: subprocess.Popen[bytes], said: Path) -> None:
    """Wait until it answers."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        try:
            if server.http.get("/version").json()["version"].startswith(VERSION):
                return
        except (httpx2.TransportError, ValueError, KeyError):
            pass
        time.sleep(0.1)
    words = said.read_text(encoding="utf-8", errors="replace")[-2000:]
    raise NotStarted(f"Gitea did not answer at {server.url}: {words}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end; kill it if it does not."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_S)


def free_port() -> int:
    """Return a port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
