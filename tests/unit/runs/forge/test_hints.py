"""Hints of a forge wait in a small private file until the worker takes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.errors import Unreadable
from bullpen.runs.forge.webhooks.deliveries import Hint
from bullpen.runs.forge.webhooks.hints import Hinted, Hints, hook_secret, make_hook_secret


def hint(*numbers: int, mark: str = "") -> Hint:
    own = mark or "-".join(map(str, numbers))
    return Hint(numbers, not numbers, (f"id {own}", f"body {own}"))


def test_hints_of_one_process_are_taken_by_another_once(tmp_path: Path) -> None:
    web, worker = Hints(tmp_path, "alpha"), Hints(tmp_path, "alpha")
    assert not worker.waits()
    assert web.add(hint(3))
    assert web.add(hint(2, 5))
    assert worker.waits()
    assert worker.take() == Hinted((2, 3, 5))
    assert not worker.waits()
    assert worker.take() == Hinted()
    assert web.add(hint())
    assert worker.take() == Hinted(everything=True)


def test_teams_have_hints_and_secrets_of_their_own(tmp_path: Path) -> None:
    Hints(tmp_path, "alpha").add(hint(3))
    assert not Hints(tmp_path, "beta").waits()
    assert make_hook_secret(tmp_path, "alpha") != make_hook_secret(tmp_path, "beta")


def test_a_flood_becomes_a_look_at_everything_and_files_stay_small(tmp_path: Path) -> None:
    hints = Hints(tmp_path, "alpha")
    for number in range(1, 500, 50):
        hints.add(hint(*range(number, number + 50)))
    found = hints.take()
    assert found.everything
    assert len(found.numbers) <= 200
    assert sum(each.stat().st_size for each in (tmp_path / "forge" / "hooks").iterdir()) < 5_000


def test_the_newest_deliveries_are_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bullpen.runs.forge.webhooks.hints._MARKS_MAX", 20)
    hints = Hints(tmp_path, "alpha")
    for number in range(1, 15):
        assert hints.add(hint(7, mark=f"m{number}"))
    assert not hints.add(hint(7, mark="m14"))
    assert not hints.add(hint(7, mark="m5"))
    assert hints.add(hint(7, mark="m4"))


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"numbers": ["7"]}', b"\xff", b'{"numbers"'])
def test_a_damaged_file_is_a_look_at_everything(tmp_path: Path, data: bytes) -> None:
    hints = Hints(tmp_path, "alpha")
    hints.add(hint(3))
    (file,) = (tmp_path / "forge" / "hooks").glob("*.hints")
    file.write_bytes(data)
    assert hints.take() == Hinted(everything=True)
    assert hints.take() == Hinted()


def test_files_that_others_can_read_are_not_believed(tmp_path: Path) -> None:
    hints = Hints(tmp_path, "alpha")
    hints.add(hint(3))
    (file,) = (tmp_path / "forge" / "hooks").glob("*.hints")
    file.chmod(0o666)
    with pytest.raises(Unreadable):
        hints.take()


def test_a_secret_is_made_once_and_replaced_on_request(tmp_path: Path) -> None:
    assert hook_secret(tmp_path, "alpha") is None
    first = make_hook_secret(tmp_path, "alpha")
    assert len(first) >= 43
    assert make_hook_secret(tmp_path, "alpha") == first == hook_secret(tmp_path, "alpha")
    second = make_hook_secret(tmp_path, "alpha", new=True)
    assert second != first
    assert hook_secret(tmp_path, "alpha") == second
