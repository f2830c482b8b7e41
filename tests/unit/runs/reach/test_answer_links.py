"""Links that answer: what a link is good for, and that nothing else is."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bullpen.errors import Unreadable
from bullpen.protocol.request import Request
from bullpen.runs.reach.answer_keys import UsedLinks, answer_key
from bullpen.runs.reach.answer_links import (
    CHOICES,
    AnswerLink,
    flaw_of,
    link_to,
    may_choose,
    request_of,
    signed,
    verified,
)
from support.rows import each_row

KEY = bytes(range(32))
NOW = 1_800_000_000_000
HOUR = 3_600_000
ASKED = Request.new(
    id="perm-1-abcdefg", kind="permission", sender="bob", to="team-lead", created_ms=NOW,
    subject={"toolName": "Bash", "input": {"command": "git push"}}, digest="d", approver="human",
)  # fmt: skip


def link(choice: str = "allow", request: Request = ASKED, team: str = "alpha") -> AnswerLink:
    return link_to(
        request, team, choice, number=b"0123456789", now_ms=NOW, life_ms=HOUR,  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.mark.parametrize("choice", CHOICES)
def test_a_link_says_after_its_check_what_it_was_made_for(choice: str) -> None:
    text = signed(link(choice), KEY)
    assert text.isalnum()
    assert text.islower()
    assert verified(text, KEY) == link(choice)
    assert flaw_of(link(choice), "alpha", ASKED, now_ms=NOW) is None


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_link_with_any_other_bit_is_forged(at: int, change: int) -> None:
    text = signed(link(), KEY)
    at %= len(text)
    other = "abcdefghijklmnopqrstuvwxyz234567"[change % 32]
    changed = text[:at] + other + text[at + 1 :]
    assert (verified(changed, KEY) is None) is (changed != text)


@given(st.text(max_size=300))
def test_nothing_that_somebody_writes_is_a_link(text: str) -> None:
    assert verified(text, KEY) is None


@pytest.mark.parametrize("more", ["=", "a", " ", "\n", "/", "%61", "\x00"])
def test_a_link_cannot_be_written_in_a_second_way(more: str) -> None:
    text = signed(link(), KEY)
    assert verified(text + more, KEY) is None
    assert verified(text.upper(), KEY) is None
    assert verified(text[:-1], KEY) is None


def test_a_link_of_another_key_is_forged() -> None:
    assert verified(signed(link(), bytes(32)), KEY) is None


FLAWS = [
    (link(team="beta"), ASKED, NOW, "other_team"),
    (link(), ASKED, NOW + HOUR, "expired"),
    (link(), None, NOW, "no_request"),
    (link(), ASKED.evolve(id="perm-1-other"), NOW, "no_request"),
    (link(), ASKED.evolve(state="approved"), NOW, "answered"),
    (link(), ASKED.evolve(state="denied"), NOW, "answered"),
    (link(), ASKED.evolve(state="expired"), NOW, "answered"),
    (link(), ASKED.evolve(used_ms=NOW), NOW, "answered"),
    (link(), ASKED.evolve(deadline_ms=NOW - 1), NOW, "expired"),
    (link(), ASKED.evolve(digest="e"), NOW, "changed"),
    (link(), ASKED.evolve(subject={"toolName": "Bash", "input": {}}), NOW, "changed"),
    (link(), ASKED.evolve(sender="mallory"), NOW, "changed"),
    (link(), ASKED.evolve(kind="plan"), NOW, "changed"),
    (replace(link(), content=b"0" * 16), ASKED, NOW, "changed"),
]


@each_row(("given_link", "request_", "now", "flaw"), FLAWS)
def test_a_link_counts_for_its_team_its_time_and_exactly_what_was_asked(
    given_link: AnswerLink, request_: Request | None, now: int, flaw: str
) -> None:
    assert flaw_of(given_link, "alpha", request_, now_ms=now) == flaw


def test_a_link_works_no_longer_than_its_request_waits() -> None:
    soon = ASKED.evolve(deadline_ms=NOW + 5)
    assert link(request=soon).expires_ms == NOW + 5
    assert link().expires_ms == NOW + HOUR


def test_a_link_finds_its_own_request() -> None:
    others = [ASKED.evolve(id=f"perm-{number}-other") for number in range(9)]
    assert request_of(link(), [*others, ASKED]) is ASKED
    assert request_of(link(), others) is None


@pytest.mark.parametrize(
    ("made_for", "choices"),
    [("allow", ["allow"]), ("deny", ["deny"]), ("open", ["allow", "deny"])],
)
def test_a_link_lets_a_person_choose_what_it_was_made_for(
    made_for: str, choices: list[str]
) -> None:
    tried = ["allow", "deny", "open", "always", "", "ALLOW"]
    assert [each for each in tried if may_choose(link(made_for), each)] == choices


# ── the key and the used links ───────────────────────────────────────────────────────────────────


def test_the_key_of_a_home_is_made_once_and_only_its_user_can_read_it(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: answer_key(tmp_path / "home"), range(16)))
    assert len(keys) == 1
    path = tmp_path / "home" / "reach" / "answers.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert answer_key(tmp_path / "other") not in keys


def test_a_key_that_others_can_read_or_that_is_a_link_does_not_count(tmp_path: Path) -> None:
    answer_key(tmp_path)
    path = tmp_path / "reach" / "answers.key"
    path.chmod(0o644)
    with pytest.raises(Unreadable, match="others can read it"):
        answer_key(tmp_path)
    planted = tmp_path / "planted"
    planted.write_bytes(KEY)
    planted.chmod(0o600)
    path.unlink()
    path.symlink_to(planted)
    with pytest.raises(Unreadable):
        answer_key(tmp_path)
    path.unlink()
    path.write_bytes(b"short")
    path.chmod(0o600)
    with pytest.raises(Unreadable, match="no key"):
        answer_key(tmp_path)


def test_a_link_is_used_once_also_by_several_and_after_a_restart(tmp_path: Path) -> None:
    used = UsedLinks(tmp_path)
    assert not used.has(link())
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda _: UsedLinks(tmp_path).take(link()), range(16)))
    assert sum(taken) == 1
    assert UsedLinks(tmp_path).has(link())
    used.give_back(link())
    assert used.take(link())


def test_used_links_are_forgotten_long_after_they_expired(tmp_path: Path) -> None:
    used = UsedLinks(tmp_path)
    used.take(link())
    used.forget(NOW + HOUR)
    assert used.has(link())
    used.forget(NOW + HOUR + 25 * HOUR)
    assert not used.has(link())
