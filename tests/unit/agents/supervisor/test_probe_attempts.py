"""What the probes of a sandbox make of what they meet."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.agents.supervisor.sandbox_probes import attempts


def test_a_process_that_ends_while_it_is_looked_at_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a busy machine would make an open sandbox look closed."""
    seen = tmp_path / "cmdline"
    seen.write_bytes(b"python\0the-mark\0")
    paths = [str(tmp_path / "ended" / "cmdline"), str(seen)]
    monkeypatch.setattr("glob.glob", lambda _: paths)
    assert attempts._marked("the-mark") == [str(seen)]


def test_a_disk_that_is_closed_hides_none_that_is_open(tmp_path: Path) -> None:
    disk = tmp_path / "sdb"
    disk.touch()
    disks = [str(tmp_path / "sda"), str(disk)]
    assert attempts._those(attempts._readable, disks) == [str(disk)]
