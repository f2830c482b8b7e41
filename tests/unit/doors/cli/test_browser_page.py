"""`bullpen web --open`: the token is in no command line."""

from __future__ import annotations

import stat
import webbrowser
from pathlib import Path

import pytest

from bullpen.doors.cli.screens.web import BrowserPage

ADDRESS = "http://127.0.0.1:8700/?token=bpw_aB3&x=1"


def test_the_browser_gets_a_private_page_that_leads_to_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    page = BrowserPage(tmp_path / "home")
    page.open(ADDRESS)
    (url,) = opened
    assert url.startswith("file://") and "bpw_" not in url
    path = Path(url.removeprefix("file://"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert 'content="0; url=http://127.0.0.1:8700/?token=bpw_aB3&amp;x=1"' in path.read_text(
        "utf-8"
    )
    page.remove()
    assert not path.exists()
