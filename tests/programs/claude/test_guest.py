"""A real Claude Code leads, and a member of its team is ours. Its model is a mock."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable

import pytest

from bullpen.agents.system import processes
from bullpen.testing.models import ModelRequest, Reply
from programs.joined import Joined, bullpen, ours
from programs.real_lead import MODEL, NEWEST, RealLead, spawns
from programs.real_programs import placed

Join = Callable[..., Joined]

AGREE = '{type = "shutdown_response", request_id = "{request}", approve = true}'
SCRIPT = """
[[agents.bob.turns]]
when = "mail"
contains = "Are you there"
steps = [
  {tool = "SendMessage", input = {to = "team-lead", summary = "I am", message = "Bob is here."}},
  {say = "Answered the lead."},
]
[[agents.bob.turns]]
when = "mail"
contains = "Count the files"
steps = [
  {tool = "TaskUpdate", input = {taskId = "1", status = "in_progress"}},
  {tool = "TaskUpdate", input = {taskId = "1", status = "completed"}},
  {say = "There are 3 files."},
]
[[agents.bob.turns]]
when = "mail"
contains = "Make a file"
steps = [
  {tool = "Bash", input = {command = "touch made-by-bob"}, may_fail = true},
  {say = "Tried to make it."},
]
[[agents.bob.turns]]
when = "mail"
contains = "Take your time"
steps = [{tool = "TaskUpdate", input = {taskId = "1", status = "in_progress"}}, {hang = true}]
[[agents.bob.turns]]
when = "mail"
contains = "Please shut down"
steps = [
  {tool = "SendMessage", input = AGREE},
]
""".replace("AGREE", AGREE)

PLANNED = """
[[agents.bob.turns]]
when = "mail"
contains = "Plan to make"
steps = [
  {tool = "Write", input = {file_path = "planned", content = "too soon"}, may_fail = true},
  {tool = "ExitPlanMode", input = {plan = "1. Touch a file."}},
  {say = "Planned."},
]
[[agents.bob.turns]]
when = "any"
steps = [{tool = "ExitPlanMode", input = {plan = "1. Touch two files."}}, {say = "Planned anew."}]
[[agents.bob.turns]]
when = "any"
steps = [
  {tool = "Write", input = {file_path = "planned", content = "in time"}},
  {say = "Did as planned."},
]
"""


def begin(lead: RealLead, *, keeper: bool = True, script: str = SCRIPT) -> tuple[str, ...]:
    """Start the lead, with a teammate of its own; the options with which ours joins."""
    lead.start("--teammate-mode", "in-process")
    lead.until(lambda: lead.config()["leadProcess"], "team")
    if keeper:
        spawn_keeper(lead)
    path = lead.folder / "script.toml"
    path.write_text(script, "utf-8")
    return "--driver", "scripted", "--script", str(path), "--no-claim"


def spawn_keeper(lead: RealLead) -> None:
    lead.parts.steps["keeping"] = [Reply("The keeper waits.")]
    lead.play("spawning", spawns(NEWEST, "keeper", "play keeping"))
    lead.until(lambda: "@keeper finished" in lead.screen(), "report of the keeper")


def message(to: str, text: str) -> Reply:
    return Reply.call("SendMessage", to=to, summary="a summary", message=text)


def pid_of(lead: RealLead, name: str) -> int:
    row = lead.member(name)
    assert row is not None
    pid: int = row["bullpen"]["process"]["pid"]
    return pid


def test_a_real_lead_talks_to_our_member_and_sees_its_answer_and_idle_notice(
    lead: RealLead, join: Join
) -> None:
    options = begin(lead)
    before = lead.config()
    bob = join("bob", *options)
    assert "warning" not in bob.until_said(" joined ")

    lead.play("asking", message("bob", "Are you there, bob?"))
    lead.until(lambda: "@bob finished\n  Answered the lead." in lead.screen(), "idle notice")
    assert "Message from @bob" in lead.screen()
    lead.show_transcript(shown=True)
    lead.until(lambda: "Bob is here." in lead.screen(), "answer on the screen")
    lead.show_transcript(shown=False)

    lead.play(
        "assigning",
        Reply.call("TaskCreate", subject="Count the files", description="Count them all."),
        Reply.call("TaskUpdate", taskId="1", owner="bob"),
    )
    lead.until(lambda: "@bob finished\n  There are 3 files." in lead.screen(), "report")
    lead.until(lambda: "There are 3 files." in heard(lead), "report to its model")
    log = bullpen(lead, "events", "--json").stdout
    assert '"status": "completed"' in log or '"status":"completed"' in log

    assert bob.interrupt() == 0
    assert "bob left session-" in bob.said
    assert ours(lead) == []
    after = lead.config()
    after.pop("bullpen")
    # What others wrote is as it was, to the last key.
    assert json.dumps(after) == json.dumps(before)


@pytest.mark.parametrize(("key", "made"), [("1", True), ("2", False)])
def test_the_leads_user_is_asked_for_permission_and_the_answer_holds(
    lead: RealLead, join: Join, key: str, made: bool
) -> None:
    options = begin(lead)
    join("bob", *options).until_said(" joined ")
    lead.play("telling", message("bob", "Make a file."))
    lead.until(lambda: "Do you want to proceed?" in lead.screen(), "dialog")
    assert "touch made-by-bob" in lead.screen()
    assert not (lead.project / "made-by-bob").exists()
    lead.answer(key)
    lead.until(lambda: "Tried to make it." in lead.screen(), "report")
    assert (lead.project / "made-by-bob").exists() is made


def test_our_member_can_think_with_a_model_of_its_own(lead: RealLead, join: Join) -> None:
    begin(lead)
    lead.parts.steps["helping"] = [
        Reply.call("SendMessage", to="team-lead", summary="help", message="It is 42."),
        Reply("Helped the lead."),
    ]
    bob = join("bob", "--driver", "native", "--model", f"anthropic:{MODEL}")
    bob.until_said(" joined ")
    lead.play("asking", message("bob", "play helping"))
    lead.until(lambda: "@bob finished\n  Helped the lead." in lead.screen(), "idle notice")
    assert "It is 42." in heard(lead)
    assert bob.interrupt() == 0


def test_our_member_can_be_a_program_of_another_vendor(lead: RealLead, join: Join) -> None:
    begin(lead)
    lead.parts.steps["helping"] = [
        Reply.call("bullpen__SendMessage", to="team-lead", summary="help", message="It is 42."),
        Reply("Helped the lead."),
    ]
    goose = placed("goose", lead.folder / "goose", lead.models)
    bob = join("bob", "--driver", "goose", "--model", "mock-model", env=goose.env)
    bob.until_said(" joined ")
    lead.play("asking", message("bob", "play helping"))
    lead.until(lambda: "@bob finished\n  Helped the lead." in lead.screen(), "idle notice")
    assert "It is 42." in heard(lead)
    assert bob.interrupt() == 0
    assert ours(lead) == []


def test_a_plan_of_our_member_waits_for_the_leads_word(lead: RealLead, join: Join) -> None:
    options = begin(lead, script=PLANNED)
    join("bob", *options, "--mode", "plan").until_said(" joined ")
    lead.play("telling", message("bob", "Plan to make a file."))
    lead.until(lambda: "1. Touch a file." in heard(lead), "plan in the lead's mail")
    lead.play("rejecting", lambda request: answer(request, approve=False))
    lead.until(lambda: "1. Touch two files." in heard(lead), "second plan")
    assert not (lead.project / "planned").exists()
    lead.play("approving", lambda request: answer(request, approve=True))
    lead.until(lambda: "Did as planned." in heard(lead), "report")
    assert (lead.project / "planned").exists()


def heard(lead: RealLead) -> str:
    """All that the lead's model was told."""
    return "\n".join(request.given for request in lead.models.requests)


def answer(request: ModelRequest, *, approve: bool) -> Reply:
    """The lead's answer to the last plan that it was sent."""
    asked = re.findall(r"plan_approval-[0-9]+@bob@session-[0-9a-f]+", request.text)[-1]
    said: dict[str, str | bool] = {
        "type": "plan_approval_response",
        "request_id": asked,
        "approve": approve,
    }
    if not approve:
        said["feedback"] = "Make two."
    return Reply.call("SendMessage", to="bob", message=said)


def test_our_member_leaves_when_the_lead_shuts_it_down(lead: RealLead, join: Join) -> None:
    options = begin(lead)
    bob = join("bob", *options)
    bob.until_said(" joined ")
    ask = {"type": "shutdown_request", "reason": "All is done."}
    lead.play("shutting", Reply.call("SendMessage", to="bob", message=ask))
    assert bob.until_ended() == 0
    assert "agreed to the shutdown that team-lead asked for" in bob.said
    assert lead.member("bob") is None
    lead.until(lambda: "@bob finished" in lead.screen(), "word of its end")


def test_mail_waits_while_the_lead_has_no_teammate_of_its_own_and_we_say_so(
    lead: RealLead, join: Join
) -> None:
    options = begin(lead, keeper=False)
    bob = join("bob", *options)
    assert "reads its mail only while it has a teammate" in bob.until_said(" joined ")
    lead.play("asking", message("bob", "Are you there, bob?"))
    lead.until(lambda: len(lead.inbox("team-lead")) == 2, "answer and idle notice in the inbox")
    # The fact that the warning is about: another prompt does not make it look.
    lead.play("nothing")
    assert len(lead.inbox("team-lead")) == 2
    spawn_keeper(lead)
    lead.until(lambda: "Answered the lead." in lead.screen(), "mail that waited")


def test_a_member_that_is_killed_harms_nothing_and_can_be_removed_later(
    lead: RealLead, join: Join
) -> None:
    options = begin(lead)
    bob = join("bob", *options, "--detach")
    assert bob.until_ended() == 0
    assert "bullpen stop bob -t" in bob.said
    lead.play(
        "assigning",
        Reply.call("TaskCreate", subject="Take your time", description="No hurry."),
        Reply.call("TaskUpdate", taskId="1", owner="bob"),
    )
    lead.until(lambda: lead.task("1")["status"] == "in_progress", "task in progress")
    pid = pid_of(lead, "bob")
    os.kill(pid, signal.SIGKILL)
    lead.until(lambda: processes.look(pid) is None, "end of the process")

    found = bullpen(lead, "doctor")
    assert "bob is recorded as running, but process" in found.stdout
    assert "lost_agent" in found.stdout
    lead.play("asking", message("keeper", "play keeping"))
    assert lead.member("bob") is not None

    stopped = bullpen(lead, "stop", "bob")
    assert stopped.returncode == 0, stopped.stderr
    assert lead.member("bob") is None
    task = lead.task("1")
    assert (task["status"], task.get("owner")) == ("pending", None)
    # What it was writing when it was killed may be left; the doctor removes that and finds no more.
    bullpen(lead, "doctor", "--fix")
    assert bullpen(lead, "doctor").returncode == 0
    assert ours(lead) == []


def test_when_the_session_ends_our_member_ends_and_makes_nothing_anew(
    lead: RealLead, join: Join
) -> None:
    options = begin(lead)
    bob = join("bob", *options)
    bob.until_said(" joined ")
    folder = lead.config_dir / "teams" / lead.team
    lead.say("/exit")
    lead.until(lambda: not folder.exists(), "end of the session")
    bob.until_ended()
    assert "the team was deleted" in bob.said
    assert ours(lead) == []
    assert not folder.exists()
    assert [path.name for path in (lead.config_dir / "teams").iterdir()] == []
