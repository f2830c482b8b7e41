"""Connects to the forge of a team, with the token of this home and the repository of this machine.

The clients and their libraries are loaded only here, when they are needed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bullpen.by_name import load
from bullpen.errors import Invalid, Refused, Unavailable
from bullpen.protocol.forge import ForgeSettings
from bullpen.protocol.task import Task
from bullpen.protocol.team import MergeSettings
from bullpen.runs.forge.connection import Connection
from bullpen.runs.forge.contract import ForgeClient
from bullpen.runs.forge.landing.local_target import (
    bring_target,
    changed_files,
    fetch_work,
    is_on,
    join_target,
)
from bullpen.runs.forge.place import Place, place_of
from bullpen.runs.forge.pushes import Pushes
from bullpen.runs.forge.token import (
    Token,
    body_redactor,
    find_token,
    forge_folder,
    marker_key,
)
from bullpen.store.private_folder import make_private
from bullpen.team.team import Team
from bullpen.workspace.git.marks import write_errors
from bullpen.workspace.git.ref_names import component
from bullpen.workspace.git.repository import common_dir
from bullpen.workspace.merge_queue.lock import only_holder

_CLIENTS = {
    "github": "bullpen.runs.forge.clients.github:GitHub",
    "gitea": "bullpen.runs.forge.clients.gitea:GiteaClient",
}


@dataclass(frozen=True, slots=True)
class OpenClient:
    """A client that has to be closed."""

    client: ForgeClient
    aclose: Callable[[], Awaitable[None]]


def open_client(settings: ForgeSettings, token: Token) -> OpenClient:
    """Return a client of the repository that the settings name.

    Raises:
        Invalid: there is no such kind of forge.
        Unavailable: the libraries for it are not installed.
    """
    place = place_of(settings.repository)
    if settings.kind not in _CLIENTS:
        raise Invalid(
            f"There is no kind of forge {settings.kind!r}.",
            remedy=f"Set kind in [forge] to {' or '.join(_CLIENTS)}.",
        )
    try:
        made: Callable[..., Any] = load(_CLIENTS[settings.kind])
    except ImportError as error:
        raise Unavailable(
            f"The client of {settings.kind} cannot be loaded: {error}.",
            remedy="Install what it needs: pip install 'bullpen[forge]'",
        ) from None
    prefix, owner, name = _parts(place)
    if settings.kind == "github":
        # Without it, the token of another GitHub would be sent to github.com.
        api_of: Callable[[str], str] = load("bullpen.runs.forge.clients.github:api_of")
        client = made(owner, name, token.value, api=settings.api or api_of(place.host))
    else:
        base = settings.api or f"{place.scheme}://{place.host}{prefix}"
        client = made(base.removesuffix("/api/v1"), owner, name, token.value)
    return OpenClient(client, client.aclose)


def _parts(place: Place) -> tuple[str, str, str]:
    """Return what stands before the owner in the path, the owner, and the repository."""
    *before, owner, name = place.path.split("/")
    return "".join(f"/{each}" for each in before), owner, name


async def connect(
    settings: ForgeSettings, *, team: Team, home: Path, environ: Mapping[str, str]
) -> Connection:
    """Connect to the forge of a team.

    Raises:
        NotFound: there is no token, or the token sees no such repository.
        Refused: the team merges nothing (no_merge), the token may not push (may_not_push), or its
            file is not private (unsafe_file).
        Unavailable: the forge cannot be reached.
    """
    merge = await team.merges.settings()
    if merge is None:
        raise Refused(
            f"Team {team.name!r} hands in no work, so there is nothing for a forge.",
            reason="no_merge",
            remedy="Set where its work goes: bullpen merge set",
        )
    place = place_of(settings.repository)
    token = find_token(home, place.host, environ, variable=settings.token_env)
    opened = open_client(settings, token)
    try:
        me, repository = await opened.client.me(), await opened.client.repository()
        if not repository.may_push:
            raise Refused(
                f"The token of {me.login} may not push to {place.url}.",
                reason="may_not_push",
                remedy="Give the token the right to write contents, issues and pull requests.",
            )
        redactor = body_redactor(home, token, environ)
        target = settings.target or merge.target
        source = common_dir(Path(merge.repository))
        pushes = Pushes(home, place, token, redactor, source=source)
        return Connection(
            client=opened.client,
            pushes=pushes,
            login=me.login,
            target=target,
            key=marker_key(home),
            redactor=redactor,
            bring_target=partial(bring_target, merge, pushes, target),
            prepare=partial(_prepare, merge),
            join_target=partial(join_target, merge, pushes, target),
            on_target=partial(_on_target, pushes, target),
            files_of=partial(changed_files, merge),
            push_target=partial(_push_target, merge, pushes, target),
            aclose=opened.aclose,
        )
    except BaseException:
        with suppress(Exception):
            await opened.aclose()
        raise


def _prepare(merge: MergeSettings, task: Task) -> None:
    record = task.facts.merge
    if record is not None:
        fetch_work(merge, record, [])


def _on_target(pushes: Pushes, target: str, commits: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the commits that the forge's target has."""
    there = pushes.fetch(target)
    return frozenset(name for name, commit in commits.items() if pushes.has(there, commit))


def _push_target(
    merge: MergeSettings, pushes: Pushes, target: str, landed: str, there: str | None
) -> str | None:
    """Push a commit that is on the local target; return why that is not possible."""
    if there is None:
        return f"the forge has no branch {target}"
    if there == landed:
        return None
    pushes.fetch(target)
    if is_on(merge, landed, there):
        return None
    if not is_on(merge, there, landed):
        return bring_target(merge, pushes, target) or "the forge has commits that are not here yet"
    pushes.push(target, landed, expected=there)
    return None


@contextmanager
def only_worker(home: Path, team: str) -> Iterator[None]:
    """Be the only worker of a team in this home, until the process ends, however it ends.

    Raises:
        Conflict: another process is it.
        Unavailable: the lock cannot be created.
    """
    path = forge_folder(home) / f"{component(team)}.lock"
    with write_errors(path):
        make_private(path.parent)
    with only_holder(
        path, lambda holder: f"{holder} already works on the forge for team {team!r}."
    ):
        yield
