"""What an "always" to a permission request allows. Pure.

The asker offers choices, from narrow to wide. `suggestions` is what a plain "always" allows.
"""

from __future__ import annotations

from typing import Any

from bullpen.errors import Invalid
from bullpen.protocol.request import Request


def choices(request: Request) -> list[dict[str, Any]]:
    """Return what an "always" can choose from, narrow to wide: name, covers and suggestions."""
    found = request.subject.get("choices")
    rows = [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
    return [row for row in rows if isinstance(row.get("name"), str)]


def chosen(request: Request, wanted: str | None) -> str | None:
    """Return the name of the choice that a name or number means. Raises Invalid."""
    if wanted is None:
        return None
    names = [str(row["name"]) for row in choices(request)]
    if wanted in names:
        return wanted
    if wanted.isascii() and wanted.isdigit() and 0 < int(wanted) <= len(names):
        return names[int(wanted) - 1]
    listed = ", ".join(f"{number} ({name})" for number, name in enumerate(names, 1))
    raise Invalid(
        f"Request {request.id!r} has no choice {wanted!r}.",
        remedy=f"Choose one of: {listed}." if names else "Approve it without a choice.",
    )


def choice_lines(request: Request) -> list[tuple[str, str]]:
    """Return the name of each choice of an "always", and in one line what it covers."""
    lines = []
    for row in choices(request):
        rules, directories = granted(request, str(row["name"]))
        lines.append(
            (str(row["name"]), f"{row.get('covers')}: {', '.join([*rules, *directories])}")
        )
    return lines


def granted(request: Request, choice: str | None = None) -> tuple[list[str], list[str]]:
    """Return the rules and directories that an "always" to this request allows.

    The asker suggested them in Claude Code's format. An answer that chose is taken at its word.
    """
    choice = choice or (request.answer or {}).get("choice")
    of_choice = (row for row in choices(request) if row["name"] == choice)
    rows = next(of_choice, request.subject).get("suggestions")
    rules: list[str] = []
    directories: list[str] = []
    for row in rows or ():
        if not isinstance(row, dict):
            continue
        if row.get("type") == "addRules" and row.get("behavior") == "allow":
            rules += [_rule(each) for each in row.get("rules") or () if isinstance(each, dict)]
        elif row.get("type") == "addDirectories":
            directories += [str(each) for each in row.get("directories") or ()]
    return rules, directories


def _rule(row: dict[str, Any]) -> str:
    content = row.get("ruleContent")
    return f"{row.get('toolName')}({content})" if content else str(row.get("toolName"))
