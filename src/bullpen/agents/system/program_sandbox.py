"""The sandbox of another vendor's program: all of it runs inside, with a home of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from anyio import to_thread

from bullpen.agents.system.vendors.home_files import files_of, model_addresses
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.policy import Sandbox
from bullpen.sandbox.command import WholeProgram, clear_way, sandboxed_command
from bullpen.sandbox.inner_environment import inner_environment
from bullpen.sandbox.mounts import is_inside
from bullpen.sandbox.network.host_rules import HostList, hosts_in
from bullpen.sandbox.network.namespace import SandboxNetwork

_HOME = "home"
_MOVED = "moved"


@dataclass(slots=True)
class ProgramSandbox:
    """Where a program runs that is started next. Its network is closed by `aclose`."""

    spec: AgentSpec
    # The agent's folder, which keeps the program's home.
    folder: Path
    # The paths of the runner's sockets that it may connect to.
    sockets: Sequence[str]
    # Is told which hosts were refused.
    refused: Callable[[str], None]
    # Directories outside the tree that the runner and the program share.
    shares: Sequence[str] = ()
    # Files and directories of the user's, besides those that every such program reads.
    reads: Sequence[str] = ()
    _network: SandboxNetwork | None = field(default=None, init=False)

    @property
    def fds(self) -> tuple[int, ...]:
        """The file descriptors that the process has to inherit."""
        return () if self._network is None else self._network.fds

    async def command(
        self, argv: Sequence[str], env: Mapping[str, str]
    ) -> tuple[list[str], dict[str, str]]:
        """The command that starts a program in the sandbox, and its environment."""
        wanted = self.spec.policy.sandbox or Sandbox.new()
        more = [*files_of(self.spec.driver).hosts, *hosts_in(model_addresses(env))]
        if hosts := HostList.of(wanted, more):
            self._network = SandboxNetwork(hosts, env, refused=self.refused)
            await self._network.__aenter__()
        words = await to_thread.run_sync(self._words, argv, env, wanted)
        return words, inner_environment(env, None if self._network is None else self._network.env)

    def has_started(self) -> None:
        """The process has inherited what it needs."""
        if self._network is not None:
            self._network.has_started()

    async def aclose(self) -> None:
        """Close the network."""
        network, self._network = self._network, None
        if network is not None:
            await network.__aexit__()

    def _words(self, argv: Sequence[str], env: Mapping[str, str], wanted: Sandbox) -> list[str]:
        team_home = env.get("BULLPEN_HOME")
        files = files_of(self.spec.driver)
        home, reads = os.path.realpath(env.get("HOME") or "/"), [*files.reads(env), *self.reads]
        binds = [(self._own(_HOME), home)]
        for number, each in enumerate(files.directories):
            path = os.path.realpath(each.path(env))
            if not is_inside(path, home):
                binds.append((self._own(f"{_MOVED}-{number}"), path))
        _remove_settings(binds, [path for path in reads if not os.path.exists(path)])
        return sandboxed_command(
            argv,
            cwd=self.spec.cwd,
            directories=self.spec.policy.directories,
            sandbox=wanted,
            env=env,
            hide=[team_home] if team_home else [],
            network=self._network,
            whole=WholeProgram(
                path=argv[0],
                homes=tuple(binds),
                shares=tuple(map(os.path.realpath, self.shares)),
                reads=tuple(path for path in reads if os.path.exists(path)),
                sockets=tuple(os.path.dirname(path) for path in self.sockets),
                nests=files.nests,
            ),
        )

    def _own(self, name: str) -> str:
        path = self.folder / name
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return str(path.resolve())


def _remove_settings(homes: Sequence[tuple[str, str]], paths: Sequence[str]) -> None:
    """Remove settings that the user does not have: the program itself may have written them."""
    for source, target in homes:
        for path in paths:
            if is_inside(path, target) and path != target:
                clear_way(source, target, path)
                found = source + path[len(target.rstrip("/")) :]
                with suppress(OSError):
                    os.unlink(found)
                shutil.rmtree(found, ignore_errors=True)
