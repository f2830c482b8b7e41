"""`bullpen trust`: whose settings count."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bullpen.cli.command import command
from bullpen.cli.session import Session, directory
from bullpen.errors import NotFound

if TYPE_CHECKING:
    from bullpen.agents.settings import FileSettings, SettingsFile


def register(app: typer.Typer) -> None:
    """Make this function a command of `app`."""
    command(
        app,
        "trust",
        examples=("bullpen trust", "bullpen trust ~/src/shop", "bullpen trust --list"),
    )(trust)


def trust(
    session: Session,
    project: Annotated[
        str | None,
        typer.Argument(metavar="DIR", help="The project. [default: here]", show_default=False),
    ] = None,
    *,
    remove: Annotated[
        bool, typer.Option("--remove", help="Trust it no more; agents at work keep what they have.")
    ] = False,
    listing: Annotated[bool, typer.Option("--list", help="List what is trusted.")] = False,
) -> None:
    """Let the settings and roles of a project count.

    They can allow agents things without asking anybody, and they can have commands run on this
    machine as you. So read them first: .claude/settings.json, .claude/settings.local.json,
    .bullpen/settings.toml and the roles in .claude/agents and .bullpen/agents. It holds for this
    directory, for those below it in the same git tree, and for what the files say later too.
    Your own settings always count.
    """
    if listing:
        known = session.with_home(lambda office: office.trusted())
        session.page.result({"directories": known}, *(known or ["No project is trusted."]))
        return
    session.refuse_agents("trust a project")
    where = directory(project)
    if remove:
        if not session.with_home(lambda office: office.distrust(where)):
            raise NotFound(f"{where} was not trusted.", remedy="See: bullpen trust --list")
        session.page.result({"removed": where}, f"{where} is trusted no more.")
        return
    real, found = session.with_home(lambda office: office.trust(where))
    session.page.result(_value(real, found), f"Trusted: {real}", *_lines(found))


def _lines(found: FileSettings) -> list[str]:
    files = [each for each in found.files if each.folder is not None]
    if not files:
        return ["It has no settings yet. When it has, they count."]
    return [*(f"  {each.path}: {_said(each)}" for each in files), *map(_unused, found.unused)]


def _unused(line: str) -> str:
    return f"  not done: {line}"


def _said(file: SettingsFile) -> str:
    rules = [f"{len(texts)} {name}" for name, texts in file.rules.items() if texts]
    parts = [
        f"rules: {', '.join(rules)}" if rules else "",
        f"mode {file.mode}" if file.mode else "",
        f"runs: {', '.join(_commands(file))}" if file.hooks else "",
        f"sets {', '.join(file.values)}" if file.values else "",
    ]
    return "; ".join(filter(None, parts)) or "says nothing that counts"


def _commands(file: SettingsFile) -> list[str]:
    return [
        f"{event} {hook.get('command', hook.get('type'))}"
        for event, groups in file.hooks.items()
        if isinstance(groups, list)
        for group in groups
        for hook in group["hooks"]
    ]


def _value(real: Path, found: FileSettings) -> dict[str, Any]:
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
    return {"directory": str(real), "files": files, "unused": found.unused}
