"""Which tools an agent has, and what calling one looks like from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support.agents.tools_fixtures import Bench


async def test_a_call_is_shown_while_it_runs_and_recorded(ann: Bench) -> None:
    await ann.ok("Bash", command="echo " + "x" * 5000)
    (begun, over) = ann.desk.did
    assert begun == ("Bash", "echo " + "x" * 74 + "…")
    assert len(begun[1]) == 80
    assert over == (None, "")
    (asked, answered) = ann.desk.records
    assert asked == ("tool", {"name": "Bash", "input": {"command": "echo " + "x" * 5000}})
    kind, recorded = answered
    assert (kind, recorded["name"], recorded["error"]) == ("result", "Bash", False)
    first, left_out, last = recorded["text"].split("\n")
    assert left_out == "[... 1000 characters, 0 lines left out ...]"
    assert len(first) + len(last) == 4000
    ann.desk.did.clear()
    ann.desk.records.clear()
    text = await ann.refused("Read", file_path="nothing")
    assert ann.desk.did == [("Read", "nothing"), (None, "")]
    assert ann.desk.records[-1] == ("result", {"name": "Read", "text": text, "error": True})


async def test_names_that_no_request_can_carry_are_shown_somehow(ann: Bench) -> None:
    (ann.cwd / "caf\udce9.txt").write_text("needle")
    for text in (await ann.ok("Glob", pattern="*"), await ann.ok("Grep", pattern="needle")):
        assert text.encode("utf-8") == b"caf?.txt"
