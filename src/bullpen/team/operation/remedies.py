"""What a model can do after a refusal: it has tools, where people are told a command. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from bullpen.errors import BullpenError, Invalid, Refused

_BY_REASON = {
    "already_claimed": "Take another task (see TaskList), or ask the owner or the lead to "
    "give it back.",
    "agent_busy": "Complete your other task (status completed) or give it back (status pending).",
    "blocked": "Take another task. You can claim this one when the tasks it depends on are done.",
    "checks_missing": "Make the checks pass. Give a report in the field `report` of TaskUpdate.",
    "not_claimed": "Claim the task first (status in_progress).",
    "task_not_found": "Use TaskList to see all tasks.",
}

_ASK_LEAD = "Ask the lead with SendMessage."
# What a command stands for, as (tool, words): the first whose tool the agent has is said.
_BY_COMMAND: Sequence[tuple[str, Sequence[tuple[str | None, str]]]] = (
    (
        r"bullpen team resume --agent",
        (
            ("Task", "Start a teammate with another name with Task, or do without it."),
            (None, f"Do without it, or: {_ASK_LEAD}"),
        ),
    ),
    (
        r"bullpen team limits --agents",
        (
            ("StopTeammate", "Stop one that is not needed with StopTeammate, or do without more."),
            (None, _ASK_LEAD),
        ),
    ),
    (
        r"bullpen team limits --spawns",
        ((None, "Start it in a minute, or give the work to those who are there."),),
    ),
    (r"bullpen team limits --depth", ((None, f"Do the work yourself. {_ASK_LEAD}"),)),
    (
        r"Raise it: bullpen",
        ((None, "Only a person can raise it. Report what is done and what is left."),),
    ),
    (r"bullpen team limits", ((None, _ASK_LEAD),)),
    (
        r"bullpen task retry",
        ((None, "Take another task (see TaskList). Only a person can retry this one."),),
    ),
    (r"bullpen requests", ((None, "Leave the answer to them."),)),
    (r"bullpen approve", ((None, "Leave the answer to a person."),)),
    (r"bullpen merge list", ((None, "TaskGet shows whether a task waits to be merged."),)),
    (r"bullpen team move", ((None, "Change nothing here. Report it."),)),
    (r"bullpen mcp login", ((None, "Ask a person to log in. Go on without its tools."),)),
    (r"bullpen promises list", ((None, "The tool Promise shows them with the action list."),)),
    (r"bullpen (ps|logs)", ((None, "Use TeamStatus to see who is there."),)),
    (
        r"bullpen hosts",
        ((None, "Give other labels in `on`, or leave `on` out."),),
    ),
    (r"leave out --as", ((None, _ASK_LEAD),)),
)


def remedy_of(error: BullpenError, tools: Collection[str]) -> str:
    """Return what an agent with these tools can do about an error."""
    if isinstance(error, Refused) and not isinstance(error, Invalid):
        known = _BY_REASON.get(error.reason)
        if known is not None:
            return known
    for command, ways in _BY_COMMAND:
        if re.search(command, error.remedy):
            return next(words for tool, words in ways if tool is None or tool in tools)
    return error.remedy
