"""A run is recorded on a tape, and replayed without a model, a key, or trust in the tape."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from bullpen.agents.config.spec import SpawnRequest
from bullpen.app.app import App
from bullpen.errors import Conflict, Invalid, Refused, Unavailable
from bullpen.testing.models import Call, ModelRequest, Playbook, Reply
from support.runs.taping import KEY, Taping, told

FILES = {"notes.md": "Apples.\n"}
READ = Call("Read", {"file_path": "notes.md"})
WRITE = Call("Write", {"file_path": "more.md", "content": "Pears.\n"})
TEAM = """\
[team]
name = "fruit"
goal = "Write about fruit"

[[member]]
name = "team-lead"
backend = "in-process"

[[member]]
name = "ann"
backend = "in-process"
prompt = "Write about apples."
"""


@pytest.fixture
def taping(tmp_path: Path) -> Taping:
    taping = Taping(tmp_path)
    taping.make({**FILES, "TEAM.toml": TEAM})
    return taping


def solo() -> Playbook:
    finish = Call("Finish", {"summary": "It is written."})
    return Playbook({"team-lead": (Reply("", (READ,)), Reply("", (finish,)), "Done.")})


async def test_a_run_is_replayed_without_a_key_and_changes_nothing(taping: Taping) -> None:
    outcome = await taping.record(solo())
    assert outcome.status == "done"
    before = {path.name for path in taping.project.iterdir()}
    replayed = await taping.replay(trust=False)
    assert replayed.departure is None, told(replayed)
    assert (replayed.made, replayed.calls) == (2, 2)
    assert replayed.outcome is not None
    assert replayed.outcome.summary == "It is written."
    assert {path.name for path in taping.project.iterdir()} == before


async def test_where_the_project_differs_the_replay_leaves_the_tape(taping: Taping) -> None:
    await taping.record(solo())
    rows = taping.tape.read_text(encoding="utf-8").splitlines(keepends=True)
    # Another commit: that of the tape is not known here.
    header = {**json.loads(rows[0]), "base": "0" * 40}
    taping.tape.write_text(json.dumps(header) + "\n" + "".join(rows[1:]), encoding="utf-8")
    (taping.project / "notes.md").write_text("Oranges.\n", encoding="utf-8")
    taping.commit()
    replayed = await taping.replay()
    left = replayed.departure
    assert left is not None
    assert replayed.code == 1
    assert (left.agent, left.number, left.what) == ("team-lead", 2, "messages")
    assert any(line.endswith("Apples.") and line.startswith("-") for line in left.lines)
    assert any(line.endswith("Oranges.") and line.startswith("+") for line in left.lines)
    assert replayed.told, "it says that the commit of the tape is not here"


async def test_a_secret_does_not_reach_the_tape_which_is_private(taping: Taping) -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    says = f"The key is {KEY} and the token {token}."
    call = Call("Bash", {"command": f"echo {KEY} {token}"})
    finish = Call("Finish", {"summary": says})
    part = (Reply(says, (call,)), Reply("", (finish,)), "Done.")
    await taping.record(Playbook({"team-lead": part}), f"Use {token}")
    raw = taping.tape.read_text(encoding="utf-8")
    assert KEY not in raw
    assert token not in raw
    assert "[secret" in raw, "something was there"
    assert stat.S_IMODE(taping.tape.stat().st_mode) == 0o600


async def test_agents_in_processes_of_their_own_share_a_tape(taping: Taping) -> None:
    spawn = Call("SpawnTeammate", {"name": "ann", "prompt": "Read the notes."})
    finish = Call("Finish", {"summary": "Read."})

    def leads(request: ModelRequest) -> Reply | str:
        if "They are about apples" in request.given:
            return Reply("", (finish,))
        return steps.pop(0)

    steps: list[Reply | str] = [Reply("", (spawn,)), *("I wait.",) * 6]
    brain = Playbook({"team-lead": leads, "ann": (Reply("", (READ,)), "They are about apples.")})
    own = SpawnRequest(cwd=str(taping.project), backend="subprocess")
    outcome = await taping.record(brain, lead=own)
    assert outcome.status == "done"
    assert taping.taped().agents == {"team-lead", "ann"}
    replayed = await taping.replay()
    assert replayed.departure is None, told(replayed)


async def test_a_replay_with_another_team_file_says_where_it_leaves_the_tape(
    taping: Taping,
) -> None:
    finish = Call("Finish", {"summary": "Written."})

    def leads(request: ModelRequest) -> Reply | str:
        done = "Apples are fruit" in request.given
        return Reply("", (finish,)) if done else "I wait for ann."

    brain = Playbook({"team-lead": leads, "ann": ("Apples are fruit.",)})
    file = taping.project / "TEAM.toml"
    outcome = await taping.record_file(brain, file)
    assert outcome.status == "done", outcome
    replayed = await taping.replay(trust=False)
    assert replayed.departure is None, told(replayed)
    other = taping.folder / "TEAM2.toml"
    other.write_text(TEAM.replace("about apples", "about pears"), encoding="utf-8")
    left = (await taping.replay(team_file=other, trust=False)).departure
    assert left is not None
    assert (left.agent, left.number, left.what) == ("ann", 1, "messages")
    assert "-Write about apples." in left.lines
    assert "+Write about pears." in left.lines


async def test_what_a_tape_allows_a_person_has_to_allow(taping: Taping) -> None:
    finish = Call("Finish", {"summary": "It is written."})
    part = (Reply("", (WRITE,)), Reply("", (finish,)), "Done.")
    lead = SpawnRequest(cwd=str(taping.project), backend="in-process", mode="acceptEdits")
    await taping.record(Playbook({"team-lead": part}), lead=lead)
    with pytest.raises(Refused, match="the mode acceptEdits") as refused:
        await taping.replay(trust=False)
    assert refused.value.reason == "not_trusted"
    replayed = await taping.replay(trust=True)
    assert replayed.departure is None, told(replayed)


async def test_a_team_file_of_a_tape_is_not_obeyed_unless_it_is_the_projects(
    taping: Taping,
) -> None:
    finish = Call("Finish", {"summary": "Written."})
    part = (Reply("", (finish,)), "Done.")
    brain = Playbook({"team-lead": part, "ann": ("Apples are fruit.",) * 3})
    await taping.record_file(brain, taping.project / "TEAM.toml")
    (taping.project / "TEAM.toml").unlink()
    with pytest.raises(Refused, match="its own team file"):
        await taping.replay(trust=False)


@pytest.mark.parametrize(
    ("own", "what"),
    [
        ('mode = "bypassPermissions"', "the mode bypassPermissions"),
        ('rules = {allow = ["Bash(make *)"]}', r"the rule Bash\(make \*\)"),
        ('rules = {directories = ["/srv"]}', "the directory /srv"),
        ('approver = "lead"', "what the lead allows it"),
    ],
)
async def test_the_calls_of_a_tape_do_not_use_what_ones_own_team_file_allows(
    taping: Taping, own: str, what: str
) -> None:
    file = taping.project / "TEAM.toml"
    # The tape has the text of the project's own file, which anybody can read.
    file.write_text(f"{TEAM}{own}\n", encoding="utf-8")
    taping.commit()
    mark = taping.folder / "ran"
    evil = Call("Bash", {"command": f"touch {mark}"})
    finish = Call("Finish", {"summary": "Written."})
    part = (Reply("", (finish,)), "Done.")
    await taping.record_file(
        Playbook({"team-lead": part, "ann": (Reply("", (evil,)), *("It is done.",) * 3)}), file
    )
    mark.unlink(missing_ok=True)
    with pytest.raises(Refused, match=rf"calls of ann in run\.tape: {what}") as refused:
        await taping.replay(trust=False)
    assert refused.value.reason == "not_trusted"
    assert not mark.exists()
    with pytest.raises(Refused, match=what):
        await taping.replay(team_file=file, trust=False)


async def test_the_calls_of_a_tape_do_not_use_what_the_users_settings_allow(taping: Taping) -> None:
    settings = taping.folder / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text('{"permissions": {"allow": ["Bash(touch *)"]}}', encoding="utf-8")
    await taping.record(solo())
    with pytest.raises(Refused, match=r"calls of team-lead in run\.tape: the rule Bash\(touch"):
        await taping.replay(trust=False)


async def test_a_member_whose_program_asks_its_model_itself_cannot_be_recorded(
    taping: Taping,
) -> None:
    lead = SpawnRequest(cwd=str(taping.project), driver="codex", backend="in-process")
    with pytest.raises(Invalid, match=r"team-lead \(codex\)") as refused:
        await taping.record(solo(), lead=lead)
    assert "native" in refused.value.remedy
    assert not taping.tape.exists()


async def test_a_tape_is_never_written_over(taping: Taping) -> None:
    taping.tape.write_text("mine", encoding="utf-8")
    with pytest.raises(Conflict):
        await taping.record(solo())
    assert taping.tape.read_text(encoding="utf-8") == "mine"
    await _no_team(taping)


async def test_a_tape_that_cannot_be_written_fails_the_run_before_it_starts(
    taping: Taping, tmp_path: Path
) -> None:
    gone = Taping(tmp_path / "gone")
    with pytest.raises(Unavailable, match="Cannot write the tape"):
        await gone.record(solo(), lead=SpawnRequest(cwd=str(taping.project), backend="in-process"))
    await _no_team(gone)


async def _no_team(taping: Taping) -> None:
    async with App(taping._settings(), taping.environ()) as app:
        assert not await app.teams.names()
