"""What the run of hidden tests says about a change. Pure."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from typing import Literal

Outcome = Literal["passed", "failed", "skipped"]


def judged(
    code: int | None,
    *,
    outcomes: Mapping[str, Outcome] | None,
    reward: str | None,
    must_pass: Sequence[str],
    wants_outcomes: bool,
    wants_reward: bool,
) -> tuple[bool, str]:
    """Return whether the tests accept a change, and why not.

    `code` is the exit code, None after the time limit. What the command was asked to write has to
    be there: a change that ends the process of the tests early with exit code 0 is not accepted.
    """
    if code is None:
        return False, "the tests took too long"
    if wants_reward:
        return _by_reward(reward)
    if wants_outcomes:
        if not outcomes:
            return False, f"the tests wrote no results (exit code {code})"
        bad = [name for name, outcome in outcomes.items() if outcome == "failed"]
        missing = [name for name in must_pass if not _is_passed(name, outcomes)]
        if missing:
            return False, f"{len(missing)} of {len(must_pass)} did not pass, as {missing[0]}"
        if must_pass:
            # Others may fail, as they did before the change.
            return True, ""
        if bad:
            return False, f"{len(bad)} of {len(outcomes)} failed, as {bad[0]}"
        if "passed" not in outcomes.values():
            return False, "no test was run"
    return code == 0, "" if code == 0 else f"the tests ended with exit code {code}"


def _by_reward(reward: str | None) -> tuple[bool, str]:
    try:
        value = float((reward or "").strip())
    except ValueError:
        return False, "the tests wrote no reward"
    return value >= 1.0, "" if value >= 1.0 else f"the reward is {value:g}"


def _is_passed(name: str, outcomes: Mapping[str, Outcome]) -> bool:
    """Return whether a test passed; pytest's own name of it may be given."""
    known = [outcome for each, outcome in outcomes.items() if each == name or each == dotted(name)]
    return bool(known) and all(outcome == "passed" for outcome in known)


def dotted(name: str) -> str:
    """Return pytest's name of a test as a results file has it: a/b.py::C::t is a.b.C.t."""
    path, _, rest = name.partition("::")
    return ".".join([path.removesuffix(".py").replace("/", "."), *rest.split("::")])


def outcomes_in(text: str) -> dict[str, Outcome]:
    """Return the outcome of each test in a JUnit file; nothing if it is not one.

    The change under test could have written it. A document type could make it grow without end, so
    that none is accepted.
    """
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        return {}
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - without entities
    except ElementTree.ParseError:
        return {}
    found: dict[str, Outcome] = {}
    for case in root.iter("testcase"):
        name = ".".join(filter(None, (case.get("classname"), case.get("name"))))
        parts = {child.tag for child in case}
        outcome: Outcome = "passed"
        if parts & {"failure", "error"}:
            outcome = "failed"
        elif "skipped" in parts:
            outcome = "skipped"
        if found.get(name) != "failed":
            found[name] = outcome
    return found
