"""The script file: what is wrong with it is said before anything is played."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.agents.drivers.scripted.script import load
from bullpen.errors import Unavailable, Unreadable
from support.rows import each_row

WHOLE = """
[agents.team-lead]

[[agents.team-lead.turns]]
when = "start"
steps = [
  {tool = "TaskCreate", input = {subject = "Write {{parser}}", description = "${HOME} {a: 1}"}},
  {tool = "TaskGet", input = {taskId = "{task:Write}"}, may_fail = true},
  {say = "I am {agent} of {team} in {cwd}: {task}, {mail}."},
  {sleep = 0.5}, {sleep = 1},
  {usage = {input_tokens = 1000, output_tokens = 50, cost_usd = 0.01}},
  {wait_mail = {from = "bob", contains = "ok", seconds = 20}},
  {hang = true}, {fail = "cause"}, {exit = 3}, {kill = 9},
]

[[agents.team-lead.turns]]
when = "mail"
from = "alice"
contains = "done"
task = "parser"
repeat = true
steps = []

[agents.alice]
"""


def wrong(tmp_path: Path, text: str) -> str:
    path = tmp_path / "script.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Unreadable) as caught:
        load(path, "ann")
    assert isinstance(caught.value, Unavailable)
    assert str(path) in caught.value.message
    assert caught.value.remedy
    return caught.value.why


def step(text: str) -> str:
    return (
        f'[[agents.bob.turns]]\nsteps = []\n[[agents.bob.turns]]\nsteps = [{{say = "x"}}, {text}]'
    )


def test_a_whole_script_is_read(tmp_path: Path) -> None:
    path = tmp_path / "script.toml"
    path.write_text(WHOLE, encoding="utf-8")
    first, second = load(path, "team-lead")
    assert (first.when, first.repeat, len(first.steps)) == ("start", False, 11)
    assert (second.sender, second.contains, second.task) == ("alice", "done", "parser")
    assert second.repeat
    assert load(path, "alice") == ()


def test_a_script_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match=r"missing\.toml.*No such file"):
        load(tmp_path / "missing.toml", "ann")


def test_a_script_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "script.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(Unreadable, match="UTF-8"):
        load(tmp_path / "script.toml", "ann")


def test_a_script_that_is_no_toml_is_refused_with_the_line(tmp_path: Path) -> None:
    assert "line 2" in wrong(tmp_path, "[agents.ann]\nturns = [}")


def test_an_agent_without_a_section_is_refused_and_the_others_are_named(tmp_path: Path) -> None:
    assert wrong(tmp_path, "[agents.bob]\n[agents.cleo]") == (
        "it has no turns for 'ann', only for bob, cleo"
    )


@each_row(
    ("text", "why"),
    [
        ("{}", "a step needs exactly one action; found nothing"),
        ('{say = "a", fail = "b"}', "exactly one action; found fail, say"),
        ('{say = "a", may_fail = true}', "`input` and `may_fail` need `tool`"),
        ('{shout = "a"}', "shout: Extra inputs are not permitted"),
        ('{sleep = "long"}', "sleep: Input should be a valid number"),
        ("{sleep = -1}", "sleep: Input should be greater than or equal to 0"),
        ("{hang = false}", "hang: Input should be True"),
        ("{exit = 300}", "exit: Input should be less than or equal to 255"),
        ("{usage = {tokens = 1}}", "usage, tokens: Extra inputs are not permitted"),
        ("{wait_mail = {seconds = 0}}", "wait_mail, seconds: Input should be greater than 0"),
        ('{say = "{nobody}"}', "say: there is no placeholder {nobody}, only {agent}, {team}"),
        ('{say = "{task:}"}', "there is no placeholder {task:}"),
        ('{tool = "T", input = {a = [{b = "${var}"}]}}', "write {{var}} for the literal text"),
    ],
)
def test_a_wrong_step_is_named_with_its_agent_and_turn(tmp_path: Path, text: str, why: str) -> None:
    found = wrong(tmp_path, step(text))
    assert found.startswith("agent 'bob', turn 2, step 2")
    assert why in found


def test_a_wrong_turn_is_named_with_its_agent(tmp_path: Path) -> None:
    text = '[[agents.bob.turns]]\nwhen = "sometimes"\nsteps = []'
    assert wrong(tmp_path, text).startswith("agent 'bob', turn 1, when: ")
    assert wrong(tmp_path, "[[agents.bob.turns]]\n").startswith("agent 'bob', turn 1, steps: ")
    assert wrong(tmp_path, "[agents.bob]\nturn = []") == (
        "agent 'bob', turn: Extra inputs are not permitted"
    )
    assert wrong(tmp_path, "") == "agents: Field required"
