"""Gitea's own pages show what the client did, in a browser."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bullpen.testing.forge.pull_promises import known, opened
from bullpen.testing.forge.review_promises import note
from support.doors.web_browser import needs_chromium
from support.forge.gitea_build import VERSION, has_pages
from support.forge.gitea_pictures import take_pictures
from support.forge.gitea_server import GiteaServer
from support.forge.gitea_stage import GiteaStage

PICTURES = os.environ.get("BULLPEN_FORGE_PICTURES")
"""A folder that keeps the pictures."""

pytestmark = [
    needs_chromium,
    pytest.mark.skipif(
        not has_pages(),
        reason=f"the pages of Gitea {VERSION} are not built: gitea_build.py --pages",
    ),
]


async def test_pages_of_issues_reviews_and_merges_are_shown_without_a_complaint(
    gitea: GiteaServer, stage: GiteaStage, tmp_path: Path
) -> None:
    client = stage.client()
    number = await stage.issue("Add change.txt", "It is missing.", labels=("bullpen",))
    await client.set_labels(number, add=("bullpen: working",))
    await client.comment(number, "A team works on it.")
    made = await opened(client, stage)
    await known(client, made.number)
    await stage.verdict(made.head, "ci / test", "success")
    await stage.review(made.number, "changes_requested", "see below", notes=[note("Why 9?", 9)])
    (thread,) = await client.threads(made.number)
    await client.reply(made.number, thread, "Because. <!-- bullpen:shop/1/reply/1:MAC -->")
    await client.resolve(made.number, thread)
    await stage.review(made.number, "approved", "good")
    at = f"/{stage.owner}/{stage.name}"
    pages = {
        "issues": f"{at}/issues",
        "issue": f"{at}/issues/{number}",
        "pull": f"{at}/pulls/{made.number}",
        "files": f"{at}/pulls/{made.number}/files",
    }
    to = Path(PICTURES) if PICTURES else tmp_path / "pictures"
    assert await take_pictures(gitea, pages, to, login=stage.login("reviewer")) == []
    await client.merge_pull(made.number, head=made.head, method="squash")
    merged = {"merged": f"{at}/pulls/{made.number}", "pulls": f"{at}/pulls?state=closed"}
    assert await take_pictures(gitea, merged, to, login=stage.login("reviewer")) == []
    assert {each.stem for each in to.glob("*.png")} >= {*pages, *merged}
