"""Find out whether git starts no program of a repository's choice when it looks at it.

Git runs programs that a repository's settings name: monitors, filters, drivers, pagers, helpers.
Here its files are read strictly: a setting that is not known to be harmless, or a line that is not
understood, means that git is asked about.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_BYTES_MAX = 64 * 1024 * 1024
_CONFIG_BYTES_MAX = 256 * 1024

_HEADING = re.compile(r'\[([A-Za-z]+)(?: "([^"\\]*)")?\]')
_ENTRY = re.compile(r'([A-Za-z][A-Za-z0-9-]*)(?:[ \t]*=[ \t]*([^\\";#]*|"[^"\\]*"))?')

_HARMLESS = frozenset(
    """
    branch.*.description branch.*.merge branch.*.pushremote branch.*.rebase branch.*.remote
    branch.*.vscode-merge-base
    core.autocrlf core.bare core.eol core.filemode core.ignorecase core.logallrefupdates
    core.longpaths core.precomposeunicode core.quotepath core.repositoryformatversion core.symlinks
    gc.auto maintenance.auto pull.ff pull.rebase push.default remote.*.fetch remote.*.tagopt
    remote.*.url user.email user.name
    """.split()  # noqa: SIM905 - one name a line would fill the page
)
_GITLINK = b"\x00\x00\xe0\x00"
"""The mode of a submodule, as the index has it."""


def is_quiet(folder: str, *, submodules: bool) -> bool:
    """Whether git in a folder runs nothing that its repository names.

    `submodules` is for a command that looks into submodules too: then there may be none.
    """
    try:
        where = Path(os.path.realpath(folder))
        folders = (where, *where.parents)
        if any(_looks_bare(each) for each in folders):
            return False
        gits = [each / ".git" for each in folders]
        # All of them: git passes over one that is not complete.
        found = [git for git in gits if os.path.lexists(git)]
        return bool(found) and all(_is_quiet_one(git, submodules=submodules) for git in found)
    except (OSError, ValueError):
        return False


def _looks_bare(folder: Path) -> bool:
    """Whether git may take a folder itself for a repository, with its settings."""
    return all(os.path.lexists(folder / name) for name in ("HEAD", "objects", "refs"))


def _is_quiet_one(git: Path, *, submodules: bool) -> bool:
    own = git
    if not git.is_dir():
        text = _text(git)
        if not text.startswith("gitdir: "):
            return False
        own = git.parent / text.removeprefix("gitdir: ").rstrip("\r\n")
    shared = own / "commondir"
    common = own / _text(shared).rstrip("\r\n") if os.path.lexists(shared) else own
    configs = [common / "config", own / "config.worktree", common / "config.worktree"]
    if not all(_is_harmless(config) for config in dict.fromkeys(configs)):
        return False
    if os.path.lexists(common / "hooks" / "post-index-change"):
        return False
    return not submodules or not _has_gitlinks(own)


def _text(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(_CONFIG_BYTES_MAX + 1)
    if len(data) > _CONFIG_BYTES_MAX:
        raise ValueError(path)
    return data.decode("utf-8")


def _is_harmless(config: Path) -> bool:
    """Whether a file of settings has none that could make git run something."""
    if not os.path.lexists(config):
        return config.name != "config"
    section: tuple[str, str | None] | None = None
    for raw in _text(config).split("\n"):
        line = raw.removesuffix("\r").strip(" \t")
        if not line or line[0] in "#;":
            continue
        if not line.replace("\t", " ").isprintable():
            return False
        heading = _HEADING.fullmatch(line)
        if heading is not None:
            section = heading[1].lower(), heading[2]
            continue
        entry = _ENTRY.fullmatch(line)
        if entry is None or section is None:
            return False
        middle = "." if section[1] is None else ".*."
        if f"{section[0]}{middle}{entry[1].lower()}" not in _HARMLESS:
            return False
    return True


def _has_gitlinks(own: Path) -> bool:
    """Whether the index may have a submodule."""
    if any(name.startswith("sharedindex.") for name in os.listdir(own)):
        return True
    try:
        with (own / "index").open("rb") as file:
            data = file.read(_BYTES_MAX + 1)
    except FileNotFoundError:
        return False
    if len(data) > _BYTES_MAX or data[:4] != b"DIRC":
        return True
    aligned = data[4:8] in (b"\0\0\0\2", b"\0\0\0\3")
    at = data.find(_GITLINK, 12)
    while at >= 0:
        # Entries start at 12 and every 8 bytes; the mode is 24 bytes into them.
        if not aligned or at % 8 == 4:
            return True
        at = data.find(_GITLINK, at + 1)
    return False


def follows_submodules(user_home: str) -> bool:
    """Whether the user's own settings may make git look into submodules for every command."""
    places = [".gitconfig", ".config/git/config"]
    for path in [*(os.path.join(user_home, each) for each in places), "/etc/gitconfig"]:
        try:
            text = _text(Path(path))
        except FileNotFoundError:
            continue
        except (OSError, ValueError):
            return True
        if "submodule" in text.lower():
            return True
    return False
