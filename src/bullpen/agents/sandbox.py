"""Closing commands in: what a command may touch, as the words that start bubblewrap.

Inside, everything is read-only but the directories an agent works in; homes, the teams and what
runs outside are not there; there is no network unless it is asked for. All of it ends when
bubblewrap does, because it is the first process of a process space of its own.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from bullpen.errors import Unavailable
from bullpen.protocol.policy import Sandbox

_PROGRAM = "bwrap"
_CHECK_S = 20.0

_SCRATCH = ("/tmp", "/var/tmp", "/run")  # noqa: S108
"""Private inside. Sockets in them lead to programs outside: tmux, agents of ssh, containers."""

_HOMES = ("/home", "/root")
_READABLE_BY_ROOT = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers")

_TOOLCHAINS = (".rustup", ".local/share/uv", ".local/share/pipx", ".local/share/mise")
"""What programs on the PATH use below a home, and what holds nothing but programs."""

_PROGRAM_FOLDERS = ("bin", ".bin", "sbin", "shims")
_NEVER_WHOLE = frozenset(
    (".local", ".config", ".cache", ".docker", ".claude", ".bullpen", ".aws", ".ssh", ".gnupg")
)
"""Directories below a home that hold secrets: of these only the very entry of the PATH is shown."""
_KEY_FILES = ("credentials", "credentials.toml")

_RUN_LATER = (".claude", ".bullpen")
"""What is written there is run outside later, as hooks and settings."""

_IDENTITY = (("user.name", "NAME"), ("user.email", "EMAIL"))


class _Mount(NamedTuple):
    """One mount. What lies deeper comes later; of the same place, the higher rank does."""

    depth: int
    rank: int
    words: tuple[str, ...]


def check_sandbox() -> None:
    """Start a command in a sandbox, for nothing but to see that this works.

    Raises:
        Unavailable: it does not; the text says why and what to do.
    """
    words = [_program(os.environ.get("PATH", ""), ()), *_base(network=False), "--", "/bin/sh"]
    try:
        done = subprocess.run(  # noqa: S603 - no shell, our own words
            [*words, "-c", ":"], capture_output=True, timeout=_CHECK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _not_to_be_had(str(error)) from None
    if done.returncode != 0:
        raise _not_to_be_had(done.stderr.decode("utf-8", "replace").strip()[-400:])


def closed_in(
    argv: Sequence[str],
    *,
    cwd: str,
    directories: Sequence[str],
    sandbox: Sandbox,
    env: Mapping[str, str],
    hide: Sequence[str] = (),
) -> list[str]:
    """The words that run `argv` closed in, in a session of its own that the caller has to make.

    The process gets `inner_environment(env)`. To ask what is inside to end, signal the others of
    its group; to end it all, kill the first process.

    `directories` can be written like the working directory; what is in `hide` is not there.
    Empty directories `.claude` and `.bullpen` may be left in the working directories: they hold
    the place, so that nothing can be put there.

    Raises:
        Unavailable: there is no bubblewrap, or these directories cannot be closed in.
    """
    homes = _homes(env)
    here = os.path.realpath(cwd)
    if not os.path.isdir(here):
        raise Unavailable(
            f"The working directory {cwd!r} is gone.", remedy="Make it again, or work elsewhere."
        )
    own = [here, *(_place(path, cwd, env) for path in directories)]
    roots = _outermost([*own, *(_place(path, cwd, env) for path in sandbox.write)])
    hidden = [os.path.realpath(path) for path in hide]
    _refuse_too_wide(roots, homes, hidden)
    covers = [path for path in (*_SCRATCH, *_HOMES, *homes, *hidden) if os.path.isdir(path)]
    mounts = [
        *(_mount(path, 1, "--tmpfs", path) for path in dict.fromkeys(covers)),
        *_tools(env, homes, covers),
        *_names_of_hosts(sandbox),
        *_read_only(sandbox.read, cwd, env, roots),
        *(_mount(path, 3, "--bind", path, path) for path in roots if os.path.exists(path)),
        *(guard for root in dict.fromkeys(own) for guard in _guards(root, hidden)),
        *_masks(_READABLE_BY_ROOT),
    ]
    program = _program(env.get("PATH", ""), roots)
    laid = [word for mount in sorted(mounts, key=_order) for word in mount.words]
    return [program, *_base(network=sandbox.network), *laid, "--chdir", here, "--", *argv]


def inner_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of a command that is closed in: without what leads out of there.

    Who commits is added, because the settings of git lie in a home that is not there.
    """
    inner = {name: value for name, value in env.items() if name != "SSH_AUTH_SOCK"}
    if "TMPDIR" in inner:
        inner["TMPDIR"] = _SCRATCH[0]
    for part, value in _identity(env.get("HOME", ""), env.get("PATH", "")):
        for role in ("AUTHOR", "COMMITTER"):
            inner.setdefault(f"GIT_{role}_{part}", value)
    return inner


def clean_up(cwd: str) -> None:
    """Remove what would make git read its settings and hooks from a place that is not guarded.

    No repository has this file but a linked work tree, whose own directory lies elsewhere.
    """
    git = os.path.join(os.path.realpath(cwd), ".git")
    if os.path.isdir(git) and not os.path.islink(git):
        with suppress(OSError):
            os.unlink(os.path.join(git, "commondir"))


def _not_to_be_had(why: str) -> Unavailable:
    return Unavailable(
        f"A sandbox was asked for and is not to be had: {why}.",
        remedy="Install bubblewrap (apt install bubblewrap). In a container without user namespaces"
        " allow them, or let the container be the sandbox and ask for none here.",
    )


def _program(path: str, writable: Sequence[str]) -> str:
    """Where bubblewrap is; never one that a command closed in could have put there."""
    for folder in path.split(os.pathsep):
        found = os.path.join(folder, _PROGRAM)
        if not os.path.isabs(found) or any(_inside(os.path.realpath(found), w) for w in writable):
            continue
        if os.path.isfile(found) and os.access(found, os.X_OK):
            return found
    raise _not_to_be_had(f"there is no {_PROGRAM} on the PATH")


def _base(*, network: bool) -> list[str]:
    words = ["--unshare-all", *(["--share-net"] if network else [])]
    # Not a session of its own: whoever starts it gives it one, and then one group holds all of it.
    words += ["--die-with-parent", "--cap-drop", "ALL"]
    return [*words, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]


def _mount(path: str, rank: int, *words: str) -> _Mount:
    return _Mount(len([part for part in path.split("/") if part]), rank, words)


def _order(mount: _Mount) -> tuple[int, int]:
    return mount.depth, mount.rank


def _inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _place(path: str, cwd: str, env: Mapping[str, str]) -> str:
    """A directory that a policy names, as it really lies."""
    if path == "~" or path.startswith("~/"):
        path = env.get("HOME", "") + path[1:]
    return os.path.realpath(os.path.join(cwd, path))


def _outermost(paths: Sequence[str]) -> list[str]:
    """Without those inside of others, in the place of which a command could have put a link."""
    found = list(dict.fromkeys(paths))
    return [path for path in found if not any(_inside(path, o) and path != o for o in found)]


def _homes(env: Mapping[str, str]) -> list[str]:
    named = [env.get("HOME", "")]
    with suppress(KeyError):
        named.append(pwd.getpwuid(os.getuid()).pw_dir)
    real = (os.path.realpath(path) for path in named if path)
    return [path for path in dict.fromkeys(real) if path != "/"]


def _refuse_too_wide(roots: Sequence[str], homes: Sequence[str], hidden: Sequence[str]) -> None:
    for root in roots:
        # The teams may lie inside a project: then they are hidden in it.
        wide = [path for path in homes if _inside(path, root)]
        opened = ", ".join([*wide, *(path for path in hidden if path == root)])
        if opened or root == "/":
            raise Unavailable(
                f"What may write in {root!r} cannot be closed in: it holds {opened or '/'}.",
                remedy="Let the agent work in a directory of its own.",
            )


def _read_only(
    paths: Sequence[str], cwd: str, env: Mapping[str, str], writable: Sequence[str]
) -> Iterator[_Mount]:
    for path in (_place(each, cwd, env) for each in paths):
        if not any(_inside(path, root) for root in writable):
            yield _mount(path, 2, "--ro-bind-try", path, path)


def _tools(env: Mapping[str, str], homes: Sequence[str], covers: Sequence[str]) -> Iterator[_Mount]:
    """Show what of the PATH is covered, so that the programs of a home can be run."""
    trees = [os.path.join(home, name) for home in homes for name in _TOOLCHAINS]
    for entry in env.get("PATH", "").split(os.pathsep):
        above = [cover for cover in covers if _inside(entry, cover) and entry != cover]
        if above:
            trees.append(_tree(os.path.normpath(entry), max(above, key=len)))
    for tree in dict.fromkeys(trees):
        if os.path.isdir(tree):
            yield _mount(tree, 0, "--ro-bind", tree, tree)
            yield from _masks(os.path.join(tree, name) for name in _KEY_FILES)


def _tree(entry: str, cover: str) -> str:
    """What has to be there for the programs in an entry of the PATH to run."""
    first = entry[len(cover) :].strip("/").split("/")[0]
    above, name = os.path.split(entry)
    whole = name in _PROGRAM_FOLDERS and above != cover and first not in _NEVER_WHOLE
    return above if whole else entry


def _masks(paths: Iterator[str] | Sequence[str]) -> Iterator[_Mount]:
    for path in paths:
        if os.path.isfile(path) and os.access(path, os.R_OK):
            yield _mount(path, 4, "--ro-bind", os.devnull, path)


def _names_of_hosts(sandbox: Sandbox) -> Iterator[_Mount]:
    """With a network, also the file that says who knows the addresses."""
    path = os.path.realpath("/etc/resolv.conf")
    if sandbox.network and os.path.isfile(path):
        yield _mount(path, 2, "--ro-bind", path, path)


def _guards(root: str, hidden: Sequence[str]) -> Iterator[_Mount]:
    """Keep a command from writing what is run outside later."""
    for name in _RUN_LATER:
        path = os.path.join(root, name)
        if path not in hidden:
            yield _kept(path)
    git = os.path.join(root, ".git")
    kind = _kind(git)
    if kind == "directory":
        yield from _git_guards(git)
    elif kind == "file":
        yield _kept(git)
        yield from _worktree_guards(git)


def _kind(path: str) -> str | None:
    """What is at a path: directory, file or None. A link can be turned round, so it is refused."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(mode):
        raise Unavailable(
            f"{path!r} is a link, so that a sandbox cannot keep it from being changed.",
            remedy="Put the directory itself in its place.",
        )
    return "directory" if stat.S_ISDIR(mode) else "file"


def _kept(path: str) -> _Mount:
    """A place that cannot be changed, moved or, if nothing is there, be taken."""
    if _kind(path) is None:
        return _mount(path, 4, "--tmpfs", path, "--remount-ro", path)
    return _mount(path, 4, "--ro-bind", path, path)


def _git_guards(git: str) -> Iterator[_Mount]:
    # A mount of its own, so that it cannot be moved away and another be put in its place.
    yield _mount(git, 3, "--bind", git, git)
    yield _kept(os.path.join(git, "hooks"))
    config = os.path.join(git, "config")
    source = config if _kind(config) else os.devnull
    yield _mount(config, 4, "--ro-bind", source, config)


def _worktree_guards(git: str) -> Iterator[_Mount]:
    """A linked work tree commits into its repository, if that repository knows it, too."""
    try:
        with open(git, encoding="utf-8") as file:
            own = os.path.realpath(file.read().removeprefix("gitdir:").strip())
        with open(os.path.join(own, "gitdir"), encoding="utf-8") as file:
            mutual = os.path.realpath(file.read().strip()) == git
    except (OSError, ValueError):
        return
    folder, repository = os.path.dirname(own), os.path.dirname(os.path.dirname(own))
    if mutual and os.path.basename(folder) == "worktrees":
        yield from _git_guards(repository)


@lru_cache(maxsize=16)
def _identity(home: str, path: str) -> tuple[tuple[str, str], ...]:
    """Who commits, as git's settings in a home say."""
    git = shutil.which("git", path=path)
    if git is None or not home:
        return ()
    found = []
    for setting, part in _IDENTITY:
        said = subprocess.run(  # noqa: S603 - no shell, our own words
            [git, "config", "--global", "--get", setting],
            env={"HOME": home, "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        value = said.stdout.decode("utf-8", "replace").strip()
        if value:
            found.append((part, value))
    return tuple(found)
