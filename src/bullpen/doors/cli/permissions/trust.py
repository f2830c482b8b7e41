"""`bullpen trust`: which projects' settings are used."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

from bullpen.agents.config.settings import FileSettings, SettingsFile
from bullpen.agents.config.trust import NewTrust, TrustRecord
from bullpen.doors.cli.app_session import with_home
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.option import argument, flag
from bullpen.doors.cli.session import Session, directory
from bullpen.errors import NotFound

_NOW = {"new": " (new)", "changed": " (changed)"}


@examples("bullpen trust", "bullpen trust ~/src/shop", "bullpen trust --list")
def trust(
    session: Session,
    project: Annotated[
        str | None, argument("The project [default: current directory]", "DIR")
    ] = None,
    *,
    remove: Annotated[
        bool, flag("Stop trusting it; running agents keep their settings", "--remove")
    ] = False,
    listing: Annotated[bool, flag("List trusted projects", "--list")] = False,
) -> None:
    """Trust this project's settings and roles.

    They can allow actions without approval and run commands on this machine as you. Read them
    first: .claude/settings.json, .claude/settings.local.json, .bullpen/settings.toml,
    .bullpen/config.toml, the roles in .claude/agents and .bullpen/agents, and the settings of other
    agent programs, such as .codex, .gemini and .mcp.json.

    Trust covers the content of these files in this directory and the directories below it in the
    same git repository. When one of them changes or a new one appears, agents do not start there
    until you run this again. Your own settings are always used.
    """
    if listing:
        record = with_home(session, lambda app: app.trusted())
        told = {"directories": list(record.projects), "outdated": record.outdated}
        session.page.result("trusted/1", told, *(_listed(record) or ["No trusted projects."]))
        return
    where = directory(project)
    if remove:
        if not with_home(session, lambda app: app.distrust(where)):
            raise NotFound(f"{where} was not trusted.", remedy="See: bullpen trust --list")
        session.page.result("trust-removed/1", {"removed": where}, f"{where} is no longer trusted.")
        return
    done, found = with_home(session, lambda app: app.trust(where))
    lines = _lines(done, found)
    session.page.result("trust/1", _value(done, found), f"Trusted: {done.directory}", *lines)


def _listed(record: TrustRecord) -> list[str]:
    old = [
        f"{each}: not trusted any more, because its files may have changed since. Run:"
        f" bullpen trust {shlex.quote(each)}"
        for each in record.outdated
    ]
    return [*record.projects, *old]


def _lines(done: NewTrust, found: FileSettings) -> list[str]:
    if not done.covered and not done.removed:
        return ["It has no settings yet. Run this again when it has some."]
    said = {each.path: _said(each) for each in found.files}
    return [
        *(
            f"  {path}{_NOW.get(state, '')}{_after(said.get(path))}"
            for path, state in done.covered.items()
        ),
        *(f"  {path} (removed)" for path in done.removed),
        *map(_unused, found.unused),
    ]


def _after(said: str | None) -> str:
    return "" if said is None else f": {said}"


def _unused(line: str) -> str:
    return f"  ignored: {line}"


def _said(file: SettingsFile) -> str:
    rules = [f"{len(texts)} {name}" for name, texts in file.rules.items() if texts]
    parts = [
        f"rules: {', '.join(rules)}" if rules else "",
        f"mode {file.mode}" if file.mode else "",
        f"runs: {', '.join(_commands(file))}" if file.hooks else "",
        f"sets {', '.join(file.values)}" if file.values else "",
    ]
    return "; ".join(filter(None, parts)) or "sets nothing that Bullpen uses"


def _commands(file: SettingsFile) -> list[str]:
    return [
        f"{event} {hook.get('command', hook.get('type'))}"
        for event, groups in file.hooks.items()
        if isinstance(groups, list)
        for group in groups
        for hook in group["hooks"]
    ]


def _value(done: NewTrust, found: FileSettings) -> dict[str, Any]:
    files = [
        {
            "path": str(each.path),
            **each.rules,
            "mode": each.mode,
            "values": each.values,
            "hooks": each.hooks,
        }
        for each in found.files
        if each.folder is not None
    ]
    return {
        "directory": str(done.directory),
        "files": files,
        "covered": [{"path": str(path), "before": state} for path, state in done.covered.items()],
        "removed": list(map(str, done.removed)),
        "unused": found.unused,
    }
