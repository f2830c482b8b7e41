"""`bullpen config`: your defaults for commands."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

from bullpen.agents.backends.available import BACKENDS
from bullpen.agents.contracts.installed_parts import PartKind, find_part, no_part
from bullpen.agents.drivers.registry import DRIVERS
from bullpen.app.config import files
from bullpen.app.config.files import Config, Value
from bullpen.app.config.keys import Key, key_named
from bullpen.by_name import load
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.completion import config_keys
from bullpen.doors.cli.options.option import argument, flag
from bullpen.doors.cli.session import Session
from bullpen.errors import Invalid

Name = Annotated[str, argument("The key", "KEY", complete=config_keys)]
OfProject = Annotated[
    bool, flag("The file of this project, for everybody who trusts it", "--project")
]


@examples("bullpen config get driver")
def get(session: Session, key: Name) -> None:
    """Show one setting."""
    found = session.config_in().value(key_named(key))
    session.page.result("setting/1", _as_json(found), _shown(found.value))


@examples("bullpen config list", "bullpen config list --json")
def list_keys(session: Session) -> None:
    """List all settings and where each comes from.

    Options of a command come first, then BULLPEN_<KEY> in the environment, then the file of a
    trusted project, then your own file.
    """
    config = session.config_in()
    values = config.values()
    project = config.project_file
    session.page.listing(
        "config/1",
        {
            "userFile": str(config.user_file),
            "projectFile": None if project is None else str(project),
            "settings": [_as_json(each) for each in values],
        },
        ("key", "value", "from", "about"),
        [(each.key.name, _value(each), each.place or "", each.key.about) for each in values],
        nothing="",
    )


@examples(
    "bullpen config set driver codex",
    "bullpen config set budget_usd 5",
    "bullpen config set notify bell,desktop",
    "bullpen config set mode acceptEdits --project",
)
def set_key(
    session: Session,
    key: Name,
    value: Annotated[str, argument("Its value; a list has commas", "VALUE")],
    *,
    project: OfProject = False,
) -> None:
    """Change one setting.

    Changes your own file, or with --project the file of this project. Other lines stay as they are.
    """
    found = key_named(key)
    if project and not found.in_project:
        raise Invalid(
            f"{key} counts only in your own file, not in a project's.",
            remedy=f"Run: bullpen config set {key} {value}",
        )
    checked = _checked(found, value)
    config = session.config_in()
    path = _file(config, project=project)
    files.set_value(path, found, checked, of_project=project)
    lines = [f"Set {key} to {_shown(checked)} in {path}."]
    if project:
        root = shlex.quote(str(path.parent.parent))
        lines.append(f"It counts for everybody who runs: bullpen trust {root}")
    else:
        now = config.value(found)
        if now.source != "user":
            lines.append(f"Here it is {_shown(now.value)}, from {now.place}.")
    session.page.result("config-set/1", {"key": key, "value": checked, "file": str(path)}, *lines)


@examples("bullpen config edit", "bullpen config edit --project")
def edit(session: Session, *, project: OfProject = False) -> None:
    """Open a settings file in your editor.

    Uses $VISUAL, $EDITOR or vi. A new file lists every key in a comment.
    """
    path = _file(session.config_in(), project=project)
    open_editor = load("bullpen.doors.cli.output.editor:edit_file")
    open_editor(path, begin=lambda: files.begin(path))
    files.read_values(path, path.read_bytes(), of_project=project)
    session.page.result("config-file/1", {"file": str(path), "exists": True}, f"Saved {path}.")


@examples("bullpen config path", "bullpen config path --project")
def path_of_file(session: Session, *, project: OfProject = False) -> None:
    """Print the path of your settings file.

    The file may not exist yet.
    """
    path = _file(session.config_in(), project=project)
    session.page.result("config-file/1", {"file": str(path), "exists": path.exists()}, str(path))


def _file(config: Config, *, project: bool) -> Path:
    return config.new_project_file if project else config.user_file


def _checked(key: Key, text: str) -> Any:
    value = key.from_text(text)
    parts: tuple[tuple[PartKind, Collection[str]], ...] = (
        ("driver", DRIVERS),
        ("backend", BACKENDS),
    )
    for kind, ours in parts:
        if key.name == kind and value not in ours and find_part(kind, value, ours) is None:
            raise no_part(kind, value, ours)
    return value


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, bool):
        return str(value).lower()
    return "not set" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _value(found: Value) -> str:
    if found.source == "built-in" and found.value is None:
        return f"({found.key.without})"
    return _shown(found.value)


def _as_json(found: Value) -> dict[str, Any]:
    return {
        "key": found.key.name,
        "value": found.value,
        "source": found.source,
        "place": found.place,
        "about": found.key.about,
    }
