"""The policy file: rules that answer requests when nobody is there."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bullpen.agents.contracts.call import Call, Rights, Ruling
from bullpen.agents.permissions.decide import decide

_NOBODY = "it needs permission, nobody is there to give it, and no rule allows it"


def answer_of(
    call: Call,
    rights: Rights,
    file: str | None,
    refuse: Callable[[str, bytes], str | None] = lambda _file, _data: None,
) -> Ruling:
    """The policy file's answer to a call. It is read for each call: a person may change it.

    `refuse` says why the content of a file does not count, if it does not.
    """
    if file is None:
        return Ruling("deny", _NOBODY)
    try:
        data = Path(file).read_bytes()
        why = refuse(file, data)
        if why is not None:
            return Ruling("deny", why)
        told = tomllib.loads(data.decode("utf-8"))
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
    # Even if the mode would allow it: a rule asked, so an explicit answer is needed.
    return Ruling("deny", f"{_NOBODY} in {file}")


def _texts(rules: dict[str, object], key: str) -> tuple[str, ...]:
    found = rules.get(key, [])
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ValueError(f"answers.{key} is not a list of rules")
    return tuple(found)
