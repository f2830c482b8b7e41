"""`bullpen docs`: the address of the documentation of each command."""

from __future__ import annotations

import importlib.util
import re
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bullpen.doors.cli.commands import COMMANDS, HIDDEN
from bullpen.doors.cli.start import docs

ROOT = Path(__file__).parents[5]
SITE = docs.site_of_documentation()


def command_line_page() -> str:
    """docs/reference/cli.md, as it is generated."""
    path = ROOT / "docs/reference/generate_cli.py"
    spec = importlib.util.spec_from_file_location("generate_cli", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text: str = module.page()
    return text


def _anchor(heading: str) -> str:
    """The anchor that the site gives a heading, as mkdocs writes it."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def test_every_command_leads_to_its_own_section_of_the_command_line_page() -> None:
    page = command_line_page()
    anchors = {_anchor(line.lstrip("# ")) for line in page.splitlines() if line.startswith("#")}

    for name in COMMANDS:
        if name.partition(" ")[0] in HIDDEN:
            continue
        address, _, anchor = docs.address_of(name).partition("#")
        assert address == f"{SITE}/reference/cli.html"
        assert anchor in anchors, name


def test_the_pages_of_a_version_are_where_they_are_published() -> None:
    published = (ROOT / ".github/publish_site.sh").read_text("utf-8")

    assert 'mike deploy --update-aliases "${number%.*}"' in published
    assert docs.edition_of("1.4.2") == "1.4"
    assert "mike deploy dev" in published
    assert docs.edition_of("0.1.0.dev0") == "dev"
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert f'Documentation = "{SITE.rpartition("/")[0]}"' in project


def test_without_a_terminal_the_address_is_printed(
    ok: Callable[..., str], as_json: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _: pytest.fail("a browser was opened"))

    assert ok("docs") == f"{SITE}/\n"
    assert ok("docs", "task", "add") == f"{SITE}/reference/cli.html#bullpen-task-add\n"
    assert as_json("docs") == {"url": f"{SITE}/", "opened": False}


def test_at_a_terminal_a_browser_is_opened_if_there_is_one(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(docs, "is_terminal", lambda _: True)

    def open_it(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", open_it)
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)

    assert run("docs").exit_code == 0
    assert opened == []
    monkeypatch.setenv("BROWSER", "firefox")
    assert run("docs", "spawn").stdout == f"{SITE}/reference/cli.html#bullpen-spawn\n"
    assert opened == [f"{SITE}/reference/cli.html#bullpen-spawn"]


def test_an_unknown_command_gets_a_guess(run: Callable[..., Any]) -> None:
    result = run("docs", "spwan")

    assert result.exit_code == 3
    assert "There is no command 'spwan'. Did you mean 'spawn'?" in result.stderr
