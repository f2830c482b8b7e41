"""The policy file: rules that answer in the place of a person who is not there."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

from bullpen.agents.policy.call import Call, Rights, Ruling
from bullpen.agents.policy.decide import decide

_NOBODY = "it needs permission, nobody is there to give it, and no rule does"


def answer_of(call: Call, rights: Rights, file: str | None) -> Ruling:
    """What the policy file says to a call that needs permission. What it does not name is denied.

    The file is read at each question, so that a person can change it while agents work.
    """
    if file is None:
        return Ruling("deny", _NOBODY)
    try:
        told = tomllib.loads(Path(file).read_text("utf-8"))
        rules = told.get("answers", {})
        allow, deny = _texts(rules, "allow"), _texts(rules, "deny")
    except (OSError, ValueError, AttributeError) as error:
        return Ruling("deny", f"the policy file {file} cannot be read ({error})")
    ruling = decide(
        call, replace(rights, mode="dontAsk", allow=allow, deny=(*rights.deny, *deny), ask=())
    )
    if ruling.effect == "allow" and ruling.rule is not None:
        return replace(ruling, why=f"the policy file {file} allows {ruling.rule}")
    if ruling.rule is not None:
        return replace(ruling, why=f"the policy file {file} does not allow it: {ruling.why}")
    # Also what the mode would permit: it was asked for, so somebody wants an answer to it.
    return Ruling("deny", f"{_NOBODY} in {file}")


def _texts(rules: dict[str, object], key: str) -> tuple[str, ...]:
    found = rules.get(key, [])
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ValueError(f"answers.{key} is no list of rules")
    return tuple(found)
