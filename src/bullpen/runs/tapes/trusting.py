"""What the calls of a tape may do in a replay: only a person may let them do more. Pure.

A tape may come from anybody. So it must not allow anything, and its calls must not use what the
replayer allows the models that answer otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator

from bullpen.agents.tapes.format import Tape
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.policy import Policy
from bullpen.runs.tapes.acts import ANSWER

_NARROW = (None, "default", "plan", "dontAsk")
_SHOWN_MAX = 5


def allowed_by(tape: Tape, *, own_file: bool) -> list[str]:
    """What a tape allows that a replay would not by itself.

    `own_file` says that the team file is the replayer's own, and not that of the tape.
    """
    return list(_allowed(tape, own_file))


def _allowed(tape: Tape, own_file: bool) -> Iterator[str]:
    header = tape.header
    mode = header.lead.get("mode")
    if mode not in _NARROW:
        yield f"the mode {str(mode)[:40]}"
    if header.lead.get("policy"):
        policy = Policy.parse(header.lead["policy"])
        for rule in policy.allow:
            yield f"the rule {rule[:80]}"
        if policy.directories or policy.sandbox is not None or policy.answers is not None:
            yield "directories, a sandbox or a policy file of its own"
    if header.team_text is not None and not own_file:
        yield "its own team file, with the commands in it"
    answers = [act for act in tape.acts if act.act == ANSWER and act.approve]
    if answers:
        yield f"{len(answers)} approval{'s' if len(answers) > 1 else ''} by a person"


def refuse_unless_trusted(tape: Tape, *, name: str, own_file: bool, trust: bool) -> None:
    """Refuse to replay a tape that allows something. Raises Refused (not_trusted)."""
    found = allowed_by(tape, own_file=own_file)
    if found and not trust:
        raise _not_trusted(f"A replay of {name} gives its agents", found)


def allowed_by_own(spec: AgentSpec) -> list[str]:
    """Return what the replayer's own team file and settings let an agent do unasked."""
    found, policy = [], spec.policy
    if spec.mode not in _NARROW:
        found.append(f"the mode {spec.mode}")
    found += [f"the rule {rule[:80]}" for rule in policy.allow]
    found += [f"the directory {folder[:80]}" for folder in policy.directories]
    if policy.approver == "lead":
        found.append("what the lead allows it, who is on the tape")
    if policy.answers is not None:
        found.append("what a policy file allows it")
    return found


def refuse_own_rights(spec: AgentSpec, *, agent: str, tape: str) -> None:
    """Refuse to let the calls of a tape use what the replayer allows. Raises Refused."""
    if found := allowed_by_own(spec):
        raise _not_trusted(f"Your files would allow the calls of {agent} in {tape}", found)


def _not_trusted(what: str, found: list[str]) -> Refused:
    more = f" and {len(found) - _SHOWN_MAX} more" if len(found) > _SHOWN_MAX else ""
    return Refused(
        f"{what}: {'; '.join(found[:_SHOWN_MAX])}{more}.",
        reason="not_trusted",
        remedy="Add --trust if you recorded it yourself, or have read it and trust it.",
    )
