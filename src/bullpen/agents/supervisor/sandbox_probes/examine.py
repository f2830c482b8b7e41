"""Run the probes in the sandbox of every kind of agent, and say which got through."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import pwd
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from bullpen.agents.drivers.claude_code.team_copy import Mirror
from bullpen.agents.supervisor.sandbox_probes import attempts
from bullpen.agents.supervisor.sandbox_probes.attempts import CLOSED, OPEN
from bullpen.agents.supervisor.sandbox_probes.scratch import Scratch, Servers, scratch
from bullpen.agents.system.private_socket import PrivateSocket
from bullpen.agents.system.program_sandbox import ProgramSandbox
from bullpen.errors import Unavailable
from bullpen.protocol.agent import AgentSpec
from bullpen.sandbox.command import check_sandbox, sandboxed_command
from bullpen.sandbox.inner_environment import inner_environment
from bullpen.sandbox.network import start_in_namespace
from bullpen.sandbox.network.host_rules import HostList
from bullpen.sandbox.network.namespace import SandboxNetwork

_RUN_S = 120.0
_SYSTEM_PATH = "/usr/bin:/bin:/usr/local/bin"
_OTHER_USER = "nobody"

_ALWAYS_OPEN = (
    "file: write in the tree",
    "file: write in its private home",
    "file: write in /tmp",
    "file: keep a file in its home",
)
_OPEN_WITH_HOSTS = ("network: an allowed host", "network: an allowed host by the proxy")
_OPEN_FOR_PROGRAMS = ("socket: of the runner",)

Words = list[str]
Weaken = Callable[[Words], Words]
"""Changes the command of a sandbox: to see that the probes find it."""


@dataclass(frozen=True, slots=True)
class ProbeRow:
    """One probe: where it ran, what must come of it and what came of it."""

    user: str
    agent: str
    probe: str
    must: str
    was: str
    detail: str

    @property
    def is_fine(self) -> bool:
        """Whether the sandbox did what it must."""
        return self.must == self.was


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of agent: what of it runs in the sandbox."""

    name: str
    driver: str
    hosts: bool
    whole: bool


SHAPES = (
    Shape("command of a native agent", "native", hosts=False, whole=False),
    Shape("command with a network", "native", hosts=True, whole=False),
    Shape("ACP program", "acp", hosts=True, whole=True),
    Shape("Claude Code", "claude-code", hosts=True, whole=True),
)


def examine_sandbox(weaken: Weaken = list) -> list[ProbeRow]:
    """Every probe in every kind of agent, as this user and, for root, as another too.

    Raises Unavailable if there is no sandbox, or the probes cannot be run.
    """
    check_sandbox()
    rows = asyncio.run(probe_as_this_user(weaken))
    return [*rows, *_as_other_user(weaken)] if os.getuid() == 0 else rows


async def probe_as_this_user(weaken: Weaken = list, shapes: Sequence[Shape] = ()) -> list[ProbeRow]:
    """Every probe in some kinds of agents, or in all. Raises Unavailable."""
    user = pwd.getpwuid(os.getuid()).pw_name
    rows = []
    for shape in shapes or SHAPES:
        with scratch() as place:
            async with Servers(place):
                found = await _Run(place, shape, weaken).take()
                kept = (place.root / "home" / "kept").exists()
        found["file: keep a file in the user's home"] = (OPEN if kept else CLOSED, "")
        rows += [
            ProbeRow(user, shape.name, probe, _must(probe, shape), was, detail)
            for probe, (was, detail) in found.items()
        ]
    return rows


def _must(probe: str, shape: Shape) -> str:
    is_open = (
        probe in _ALWAYS_OPEN
        or (shape.hosts and probe in _OPEN_WITH_HOSTS)
        or (shape.whole and probe in _OPEN_FOR_PROGRAMS)
    )
    return OPEN if is_open else CLOSED


@dataclass(slots=True)
class _Run:
    """One run of all probes in one sandbox."""

    place: Scratch
    shape: Shape
    weaken: Weaken

    async def take(self) -> dict[str, tuple[str, str]]:
        """What came of each probe. Raises Unavailable."""
        place = self.place
        script = place.tree / "attempts.py"
        script.write_text(_source(attempts.__file__))
        door = PrivateSocket(_nobody, bytes_max=1024)
        await door.open()
        try:
            python = shutil.which("python3", path=_SYSTEM_PATH) or sys.executable
            # In a file: the command lines of the sandbox itself must not have the mark.
            facts = place.tree / "facts.json"
            facts.write_text(json.dumps(place.facts(door.path)))
            argv = [python, "-I", "-S", str(script), str(facts)]
            spec = place.spec(self.shape.driver, hosts=self.shape.hosts)
            start = self._program if self.shape.whole else self._command
            return await start(argv, spec, door)
        finally:
            await door.aclose()

    async def _command(
        self, argv: Words, spec: AgentSpec, door: PrivateSocket
    ) -> dict[str, tuple[str, str]]:
        env, sandbox = self.place.env, spec.policy.sandbox
        assert sandbox is not None
        async with AsyncExitStack() as stack:
            network = None
            if hosts := HostList.of(sandbox):
                network = await stack.enter_async_context(SandboxNetwork(hosts, env))
            words = sandboxed_command(
                argv,
                cwd=spec.cwd,
                directories=(),
                sandbox=sandbox,
                env=env,
                hide=[env["BULLPEN_HOME"]],
                network=network,
            )
            if network is None:
                return await self._started(words, inner_environment(env), ())
            inner = inner_environment(env, network.env)
            return await self._started(words, inner, network.fds, network.has_started)

    async def _program(
        self, argv: Words, spec: AgentSpec, door: PrivateSocket
    ) -> dict[str, tuple[str, str]]:
        env = self.place.env
        folder = self.place.root / "teams" / "agents" / "ann"
        mirror = Mirror(folder / "claude", "crew", "ann")
        mirror.furnish(spec.cwd, env)
        shares = mirror.directories if spec.driver == "claude-code" else ()
        box = ProgramSandbox(spec, folder, [door.path], lambda why: None, shares=shares)
        try:
            words, inner = await box.command(argv, env)
            return await self._started(words, inner, box.fds, box.has_started)
        finally:
            await box.aclose()

    async def _started(
        self,
        words: Words,
        env: Mapping[str, str],
        fds: Sequence[int],
        has_started: Callable[[], None] = lambda: None,
    ) -> dict[str, tuple[str, str]]:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *self.weaken(words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            env=dict(env),
            cwd=self.place.tree,
            start_new_session=True,
            pass_fds=fds,
        )
        has_started()
        try:
            async with asyncio.timeout(_RUN_S):
                said, errors = await process.communicate()
            return {name: (was, detail) for name, (was, detail) in json.loads(said).items()}
        except TimeoutError:
            process.kill()
            await process.wait()
            raise _not_run(f"they took longer than {_RUN_S:.0f} s") from None
        except ValueError:
            raise _not_run(errors.decode("utf-8", "replace").strip()[-400:]) from None


def _not_run(why: str) -> Unavailable:
    return Unavailable(
        f"The probes could not run in the sandbox: {why}.",
        remedy="Install python3 in /usr/bin, and check that bubblewrap works: bwrap --version",
    )


async def _nobody(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer nothing."""


@lru_cache(maxsize=2)
def _source(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


# Another user may not be able to read this Python and these files. So the probes run in a fork of
# this process, which has read them.


def _as_other_user(weaken: Weaken) -> list[ProbeRow]:
    """The same as a user without rights. Raises Unavailable."""
    other = pwd.getpwnam(_OTHER_USER)
    for path in (attempts.__file__, start_in_namespace.__file__):
        _source(path)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            said = _in_fork(other, weaken)
        except BaseException as error:
            said = json.dumps(str(error))
        with os.fdopen(writing, "w") as file:
            file.write(said)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        said = file.read()
    os.waitpid(pid, 0)
    found = json.loads(said or '"the process ended"')
    if isinstance(found, str):
        raise _not_run(f"as the user {_OTHER_USER}: {found}")
    return [ProbeRow(**row) for row in found]


def _in_fork(other: pwd.struct_passwd, weaken: Weaken) -> str:
    os.setgroups([])
    os.setresgid(other.pw_gid, other.pw_gid, other.pw_gid)
    os.setresuid(other.pw_uid, other.pw_uid, other.pw_uid)
    # Otherwise its own children could not open the filter for system calls, which it holds.
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
    os.environ["PATH"] = _SYSTEM_PATH
    with scratch() as place:
        if not os.access(sys.executable, os.X_OK):
            sys.executable = shutil.which("python3", path=_SYSTEM_PATH) or sys.executable
        copy = place.root / "start_in_namespace.py"
        copy.write_text(_source(start_in_namespace.__file__))
        start_in_namespace.__file__ = str(copy)
        rows = asyncio.run(probe_as_this_user(weaken))
    return json.dumps([asdict(row) for row in rows])
