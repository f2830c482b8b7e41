"""`bring_up`, as a Python program calls it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen import Invalid, bring_up


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("until", "said"), [("soon", "not a valid"), ("2020-01-01T07:00", "in the past")]
)
async def test_the_end_is_given_in_the_words_of_the_command(
    tmp_path: Path, until: str, said: str
) -> None:
    with pytest.raises(Invalid, match=said):
        await bring_up(tmp_path / "TEAM.toml", until=until, home=tmp_path / "home")
