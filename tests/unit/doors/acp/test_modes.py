"""Which modes a client may choose."""

from __future__ import annotations

import pytest

from bullpen.agents.config.settings import FileSettings
from bullpen.doors.acp.team_start import check_offered, offered_modes
from bullpen.errors import Invalid
from bullpen.protocol.policy import Mode


def names(begin: Mode) -> list[str]:
    return [name for name, _, _ in offered_modes(begin, FileSettings())]


@pytest.mark.parametrize("begin", ["default", "acceptEdits", "plan"])
def test_a_client_cannot_choose_a_mode_wider_than_accepting_edits(begin: Mode) -> None:
    assert "bypassPermissions" not in names(begin)
    assert {"default", "plan", "acceptEdits"} <= set(names(begin))


def test_the_mode_of_the_command_line_is_offered() -> None:
    assert "bypassPermissions" in names("bypassPermissions")


def test_a_mode_that_is_not_offered_is_refused() -> None:
    with pytest.raises(Invalid, match="bypassPermissions"):
        check_offered("bypassPermissions", offered_modes("default", FileSettings()))
