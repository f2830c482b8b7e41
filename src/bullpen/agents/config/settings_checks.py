"""Checks that the settings files of both formats need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bullpen.agents.config.settings import SettingsPlace, with_source
from bullpen.agents.hooks.hook_set import HookSet
from bullpen.agents.permissions.rule_language.package_names import KNOWN_TOOLS
from bullpen.agents.permissions.rule_language.redundant import rebased
from bullpen.agents.permissions.rule_language.rule import check_rules, rule_of
from bullpen.errors import Invalid


def meant_rule(place: SettingsPlace, rule: str) -> str:
    """A rule relative to the project root, rewritten for an agent in a subdirectory."""
    specifier = rule_of(rule).specifier or ""
    from_root = specifier.startswith("/") and not specifier.startswith("//")
    if from_root and place.folder is not None and place.folder != place.cwd:
        return rebased(rule, str(place.folder))
    return rule


def read_hooks(
    path: Path,
    hooks: dict[str, Any],
    place: SettingsPlace,
    read: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> dict[str, Any]:
    """The hooks of a file, in the form in which they are stored. Raises Invalid."""
    with naming(path):
        made = read(hooks)
        HookSet.of(made)
    return with_source(made, path, place.project)


def check_file_rules(path: Path, rules: Iterable[str]) -> None:
    """Refuse rules that cannot be read, and name their file. Raises Invalid."""
    with naming(path):
        check_rules(rules, KNOWN_TOOLS)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the file to an error about its content."""
    try:
        yield
    except Invalid as error:
        raise Invalid(f"{path}: {error.message}", remedy=error.remedy) from None
