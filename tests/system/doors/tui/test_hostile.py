"""What teammates write is text on the screen: it is no markup, steers no terminal, runs nothing."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Markdown

from bullpen.agents.system.processes import host_name
from bullpen.app.app import open_app
from bullpen.app.stores import open_teams
from bullpen.doors.tui.app import TeamApp
from bullpen.doors.tui.late_app import LateApp
from bullpen.protocol.agent import ProcessRecord
from bullpen.protocol.clock import now_ms
from support.doors.tui_screens import opened, quick_keys, ready, text_of, told, until
from support.doors.tui_teams import at, beat, hire

TEXTS = (
    "\x1b[2J\x1b[31mred\x1b]0;title\x07",
    "[bold red]loud[/] [@click=app.quit]quit[/] [link=file:///etc/passwd]x[/link]",
    "right\u202eleft \u2066in\u2069 \u2028 line",
    "a\x00b\x07c\x9bd\r\n\te",
    "z\u0301" * 400,
    "wide 漢字 👩‍👩‍👧 end",
    "x" * 10_000,
    "[/]", "[", "]", "[[", "\\[x]", "{0} %s $HOME `id`", "\x1b",
)  # fmt: skip
ONE_BY_ONE = "BULLPEN_TUI_HOSTILE"
# Whatever steers a terminal or turns the order of letters.
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
LINKS = """# Plan

[quit](javascript:alert(1)) [x](file:///etc/passwd) ![i](http://127.0.0.1:9/p.png)
[@click=app.quit]press me[/] <a href="x" onclick="y">html</a>

```sh
rm -rf / [red]
```

| a | b |
|---|---|
| [c](action:app.quit) | \x1b[31m |

<!-- hidden -->
"""


async def hostile_team(home: Path, texts: Sequence[str]) -> None:
    """A team in which members say such things, everywhere where anything can be said."""
    async with open_teams(at(home)) as teams:
        await teams.create("alpha", description=texts[0])
        team = teams.open("alpha")
        for number, text in enumerate(texts):
            name, said = f"mallory-{number}", text[:500]
            await hire(team, name, model=text[:200])
            first = await team.tasks.add(said, by="team-lead", description=text)
            await team.tasks.add("next", by="team-lead", blocked_by=[first.id])
            await team.tasks.claim(first.id, by=name)
            await team.mailbox.send(name, text, sender="team-lead", summary=said[:80])
            await beat(
                team, name, "working", ms=now_ms(), tool=said[:60], detail=said, actions=[text]
            )
            await team.approvals.ask_permission(
                "Bash", {"command": text, said[:40]: text}, by=name, description=text,
                approver="human", deadline_s=600,
            )  # fmt: skip


async def look_everywhere(pilot: Pilot[None]) -> None:
    """Go to every page and open what can be opened; each must be harmless."""
    for keys in (
        ["shift+down"], ["f3"], ["f4"], ["f5"], ["f6"], ["f2"], ["n"], ["v"], ["escape"], ["e"],
        ["escape"], ["d"], ["escape"], ["slash"], ["ctrl+c"], ["at"], ["ctrl+c"], ["tab", "enter"],
        ["tab", "enter"], ["escape"], ["escape"], ["ctrl+t"], ["enter"], ["escape"], ["g"],
        ["ctrl+t"], [*"/messages", "enter"], ["n"], ["enter"], ["escape"], ["escape"],
        [*"/log", "enter"], ["enter"], ["escape"], ["escape"], [*"/stop", "enter"], ["escape"],
        [*"hello", "enter"],
    ):  # fmt: skip
        await pilot.press(*keys)
        await pilot.pause(0.1)
        shown = text_of(pilot).replace("\n", "")
        assert not STEERS.search(shown), (keys, shown)
        assert not STEERS.search(told(pilot).replace("\n", "")), keys
        assert pilot.app.is_running


async def test_hostile_text_is_shown_and_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick_keys(monkeypatch)
    await hostile_team(tmp_path, TEXTS)
    async with opened(tmp_path, frozen=False, size=(100, 60)) as pilot:
        await ready(pilot)
        await look_everywhere(pilot)


@pytest.mark.skipif(ONE_BY_ONE not in os.environ, reason=f"two minutes; {ONE_BY_ONE}=1 runs it")
@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
async def test_each_hostile_text_alone_does_nothing(tmp_path: Path, text: str) -> None:
    await hostile_team(tmp_path, [text])
    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        await look_everywhere(pilot)


async def test_names_that_other_programs_gave_are_cut_and_harmless(tmp_path: Path) -> None:
    """Our own rules refuse such names; the files of other programs may hold them."""
    await hostile_team(tmp_path, ["x"])
    async with opened(tmp_path, frozen=False, size=(80, 40)) as pilot:
        screen = await ready(pilot)
        look = screen.looked_at
        assert look is not None
        cards = tuple(
            replace(look.scene.members[0], name=text, color=text, lead=False, detail=text)
            for text in TEXTS
        )
        screen.show(replace(look.scene, team=TEXTS[0], members=cards), look.story)
        await until(pilot, "xxxxxxxxxxxxx…")
        shown = text_of(pilot)
        assert not STEERS.search(shown.replace("\n", "")), shown
        assert "[bold red]loud" in shown


async def test_markup_is_shown_as_it_is_written(tmp_path: Path) -> None:
    await hostile_team(tmp_path, ["[bold red]loud[/] [@click=app.quit]quit[/]"])
    async with opened(tmp_path, frozen=False, size=(160, 40)) as pilot:
        await ready(pilot)
        await until(pilot, "[bold red]loud[/]")
        await pilot.press("ctrl+t")
        await until(pilot, "#1 [bold red]loud[/]")
        await pilot.press("ctrl+t", *"/messages", "enter")
        await until(pilot, "[bold red]loud[/]")


async def test_what_controls_a_terminal_is_shown_as_escapes(tmp_path: Path) -> None:
    await hostile_team(tmp_path, ["\x1b[2Jgone \u202etxt"])
    async with opened(tmp_path, frozen=False, size=(160, 40)) as pilot:
        await ready(pilot)
        await until(pilot, r"\x1b[2Jgone \u202etxt")
        for keys in (["f5"], ["ctrl+t"], ["ctrl+t", *"/messages", "enter"]):
            await pilot.press(*keys)
            await until(pilot, r"\x1b[2Jgone \u202etxt")


async def test_the_links_of_a_plan_open_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened_urls: list[str] = []
    monkeypatch.setattr(App, "open_url", lambda _app, url, **_: opened_urls.append(url))
    async with open_teams(at(tmp_path)) as teams:
        await teams.create("alpha")
        team = teams.open("alpha")
        await hire(team, "mallory", mode="plan")
        await team.approvals.ask_plan(LINKS, by="mallory", approver="human", deadline_s=600)
    async with opened(tmp_path, frozen=False) as pilot:
        await ready(pilot)
        await until(pilot, "its plan")
        await pilot.press("v")
        await until(pilot, lambda: bool(pilot.app.screen.query(Markdown)))
        await until(pilot, "r plain text")
        assert not STEERS.search(text_of(pilot).replace("\n", ""))
        region = pilot.app.screen.query_one(Markdown).region
        clicked = 0
        for number, line in enumerate(text_of(pilot).split("\n")):
            for word in ("quit", "x", "i", "press me", "html", "c"):
                at_x = line.find(f" {word}") + 1
                if region.contains(at_x, number) and at_x:
                    await pilot.click(offset=(at_x, number))
                    clicked += 1
        assert clicked >= 3
        await pilot.pause()
        assert pilot.app.is_running
        assert opened_urls == []
        await pilot.press("r")
        await until(pilot, "javascript:alert(1)")


async def test_a_hostile_transcript_is_text(tmp_path: Path) -> None:
    await hostile_team(tmp_path, ["x"])
    async with open_teams(at(tmp_path)) as teams:
        await hire(teams.open("alpha"), "oscar", place=_nowhere())
    async with open_app(at(tmp_path)) as bullpen_app:
        path = await bullpen_app.supervisor("alpha").transcript("oscar")
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        for text in TEXTS:
            for kind in ("said", "tool", "turn", "denied", "text", "mail", "trouble", text[:30]):
                row = {"kind": kind, "text": text, "name": text, "input": {"a": text}, "time": text}
                file.write(json.dumps(row).encode() + b"\n")
        file.write(b"\xff\xfe not json \x1b[2J\n")
    async with opened(tmp_path, frozen=False) as pilot:
        screen = await ready(pilot)
        await until(pilot, "oscar")
        screen.choose("oscar")
        await until(pilot, "─ oscar")
        for part in ("f2", "f4"):
            await pilot.press(part, "ctrl+end")
            for _ in range(12):
                await pilot.press("pageup")
                await pilot.pause()
                shown = text_of(pilot).replace("\n", "")
                assert not STEERS.search(shown), shown


def _nowhere() -> ProcessRecord:
    return ProcessRecord.new(backend="subprocess", host=host_name(), pid=2**22 + 1, start="gone")


async def test_a_hostile_team_name_opens_nothing(tmp_path: Path) -> None:
    async with LateApp(at(tmp_path)) as late_app:
        app = TeamApp(late_app, team="../../[red]x\x1b[2J")
        async with app.run_test(size=(80, 24)) as pilot:
            await until(pilot, "!")
            assert not STEERS.search(text_of(pilot).replace("\n", ""))
