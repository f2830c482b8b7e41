"""A member of ours on the team of an older Claude Code. Its model is a mock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bullpen.testing.models import Reply
from programs.joined import Joined, ours
from programs.real_lead import NEWEST, RealLead, model_for, real_lead
from programs.real_programs import CLAUDE_CODE_VERSIONS, program

SCRIPT = """
[[agents.bob.turns]]
when = "mail"
contains = "Are you there"
steps = [
  {tool = "SendMessage", input = {to = "team-lead", summary = "I am", message = "Bob is here."}},
  {say = "Answered the lead."},
]
"""


@pytest.fixture(params=[each for each in CLAUDE_CODE_VERSIONS if each != NEWEST])
def version(request: pytest.FixtureRequest) -> str:
    """One of the older versions that are tested."""
    found: str = request.param
    return found


@pytest.fixture
def lead(tmp_path: Path, version: str) -> Iterator[RealLead]:
    """A lead of that version, not started yet."""
    with real_lead(tmp_path, program(f"claude-code-{version}").argv) as lead:
        yield lead


def test_an_older_lead_hears_our_member_and_needs_no_teammate_of_its_own(
    lead: RealLead, version: str
) -> None:
    lead.start("--teammate-mode", "in-process", model=model_for(version))
    lead.play("creating", Reply.call("TeamCreate", team_name="lab", description="a team"))
    lead.until(lambda: lead.config()["members"], "team")
    script = lead.folder / "script.toml"
    script.write_text(SCRIPT, "utf-8")
    bob = Joined(lead, "bob", "--driver", "scripted", "--script", str(script), "--no-claim")
    try:
        said = bob.until_said(" joined ")
        assert "may not be running" in said
        assert "reads its mail only" not in said
        lead.play("asking", _message(version, "Are you there, bob?"))
        lead.until(lambda: "Answered the lead." in _heard(lead), "idle notice")
        assert "Bob is here." in _heard(lead)
    finally:
        bob.interrupt()
    assert lead.member("bob") is None
    assert ours(lead) == []


def _message(version: str, text: str) -> Reply:
    if version == "2.1.41":
        old = {"type": "message", "recipient": "bob", "content": text, "summary": "a summary"}
        return Reply.call("SendMessage", **old)
    return Reply.call("SendMessage", to="bob", summary="a summary", message=text)


def _heard(lead: RealLead) -> str:
    """All that the lead's model was told."""
    return "\n".join(request.given for request in lead.models.requests)
