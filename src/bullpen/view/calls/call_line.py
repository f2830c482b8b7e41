"""A tool call in one line: the tool, and what the call is about. Pure."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from bullpen.agents.contracts.call import Call
from bullpen.view.text import one_line, shortened

_DETAIL_MAX = 200
_PATHS = ("file_path", "notebook_path", "path")


def call_line(name: str, given: Any, *, cwd: str | None = None) -> str:
    """The call in one line: `Edit src/lex.py`, `Bash pytest -q`."""
    fields = given if isinstance(given, Mapping) else {}
    about = _ABOUT.get(name, _about)(fields, cwd)
    return one_line(f"{name} {shortened(about, _DETAIL_MAX)}".rstrip())


def shown_path(path: str, cwd: str | None) -> str:
    """The path as it is seen from the agent's directory, if it is below it."""
    if cwd is None or not os.path.isabs(path):
        return path
    inside = os.path.normpath(path)
    root = cwd.rstrip("/") or "/"
    return os.path.relpath(inside, root) if f"{inside}/".startswith(f"{root}/") else path


def path_of(given: Any) -> str | None:
    """The path of the file that a call names."""
    fields = given if isinstance(given, Mapping) else {}
    return next((fields[key] for key in _PATHS if isinstance(fields.get(key), str)), None)


def _about(given: Mapping[str, Any], cwd: str | None) -> str:
    path = path_of(given)
    if path is not None and not isinstance(given.get("pattern"), str):
        return shown_path(path, cwd)
    detail = Call("", given, "run").detail
    if detail:
        return detail
    # The only value of a call, or nothing: what a name says is in its body.
    values = [value for value in given.values() if isinstance(value, str | int | float)]
    return str(values[0]) if len(given) == 1 and values else ""


def _command(given: Mapping[str, Any], cwd: str | None) -> str:
    command = str(given.get("command") or given.get("description") or "").strip()
    here = (f"cd {cwd} && ", f"cd '{cwd}' && ", f'cd "{cwd}" && ')
    for prefix in here if cwd else ():
        command = command.removeprefix(prefix)
    first, *rest = command.split("\n")
    return f"{first} …" if rest else first


def _search(given: Mapping[str, Any], cwd: str | None) -> str:
    path = given.get("path")
    where = shown_path(path, cwd) if isinstance(path, str) else "."
    pattern = str(given.get("pattern") or "")
    return pattern if where == "." else f"{pattern} in {where}"


def _message(given: Mapping[str, Any], cwd: str | None) -> str:
    to = str(given.get("to") or given.get("recipient") or "everybody")
    to = "everybody" if to in ("*", "@team") else to
    message = given.get("message") or given.get("content") or ""
    if isinstance(message, Mapping):
        message = str(message.get("type") or "").replace("_", " ")
    text = str(given.get("summary") or message).strip()
    return f"{to}: {text}" if text else to


def _task_update(given: Mapping[str, Any], cwd: str | None) -> str:
    changes = [str(given[key]) for key in ("status", "subject") if given.get(key)]
    if given.get("owner"):
        changes.append(f"owner {given['owner']}")
    return " ".join([f"#{given.get('taskId', '?')}", *changes])


def _teammate(given: Mapping[str, Any], cwd: str | None) -> str:
    name, prompt = str(given.get("name") or ""), str(given.get("description") or "")
    prompt = prompt or str(given.get("prompt") or "")
    return f"{name}: {prompt}" if name and prompt else name or prompt


def _questions(given: Mapping[str, Any], cwd: str | None) -> str:
    asked = given.get("questions")
    first = asked[0] if isinstance(asked, list) and asked else given
    return str(first.get("question") or "") if isinstance(first, Mapping) else ""


def _todos(given: Mapping[str, Any], cwd: str | None) -> str:
    todos = given.get("todos")
    rows = [row for row in todos if isinstance(row, Mapping)] if isinstance(todos, list) else []
    done = sum(row.get("status") == "completed" for row in rows)
    now = next((row for row in rows if row.get("status") == "in_progress"), {})
    doing = str(now.get("activeForm") or now.get("content") or "")
    return f"{done} of {len(rows)} done" + (f": {doing}" if doing else "")


def _plan(given: Mapping[str, Any], cwd: str | None) -> str:
    lines = str(given.get("plan") or "").strip().split("\n")
    return lines[0].lstrip("# ")


def _patch(given: Mapping[str, Any], cwd: str | None) -> str:
    text = given.get("input") or given.get("patch") or ""
    named = [
        shown_path(line.partition(": ")[2].strip(), cwd)
        for line in str(text).split("\n")
        if line.startswith(("*** Update File: ", "*** Add File: ", "*** Delete File: "))
    ]
    return ", ".join(named)


_ABOUT: Mapping[str, Callable[[Mapping[str, Any], str | None], str]] = {
    "Bash": _command,
    "Grep": _search,
    "Glob": _search,
    "SendMessage": _message,
    "TaskUpdate": _task_update,
    "TaskGet": _task_update,
    "SpawnTeammate": _teammate,
    "Task": _teammate,
    "Agent": _teammate,
    "AskUserQuestion": _questions,
    "TodoWrite": _todos,
    "ExitPlanMode": _plan,
    "ApplyPatch": _patch,
    "apply_patch": _patch,
}
