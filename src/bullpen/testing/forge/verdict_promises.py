"""Promises about the verdicts of CI."""

from __future__ import annotations

import pytest

from bullpen.errors import NotFound
from bullpen.runs.forge.contract import ForgeClient
from bullpen.team.forge.shown import VerdictState
from bullpen.testing.forge.issue_promises import MANY
from bullpen.testing.forge.stage import ForgeStage

TAIL_BYTES_MAX = 4096
"""At most this much of a log is in a verdict."""


class VerdictPromises:
    """Every promise about verdicts. A subclass has the fixtures `stage` and `client`."""

    @pytest.mark.parametrize("state", ["pending", "success", "failure", "skipped"])
    async def test_a_verdict_is_shown(
        self, client: ForgeClient, stage: ForgeStage, state: VerdictState
    ) -> None:
        if state == "skipped" and not stage.abilities.tells_skipped:
            pytest.skip("this forge does not tell what CI skipped")
        commit = await stage.push("change", {"a.txt": "a"})
        assert await client.verdicts(commit) == []
        await stage.verdict(commit, "ci / test", state)
        (shown,) = await client.verdicts(commit)
        assert (shown.name, shown.state, shown.commit) == ("ci / test", state, commit)
        assert shown.url.startswith("http")

    async def test_only_the_newest_of_each_job_is_shown_by_name(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        commit = await stage.push("change", {"a.txt": "a"})
        for name, state in (
            ("test", "failure"),
            ("lint", "success"),
            ("test", "pending"),
            ("build", "failure"),
            ("test", "success"),
            ("lint", "failure"),
        ):
            await stage.verdict(commit, name, state)  # type: ignore[arg-type]
        found = [(each.name, each.state) for each in await client.verdicts(commit)]
        assert found == [("build", "failure"), ("lint", "failure"), ("test", "success")]

    async def test_a_job_that_runs_again_is_pending(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        commit = await stage.push("change", {"a.txt": "a"})
        await stage.verdict(commit, "test", "failure")
        assert [each.state for each in await client.verdicts(commit)] == ["failure"]
        await stage.verdict(commit, "test", "pending")
        assert [each.state for each in await client.verdicts(commit)] == ["pending"]

    async def test_verdicts_are_about_one_commit(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        old = await stage.push("change", {"a.txt": "a"})
        await stage.verdict(old, "test", "failure")
        new = await stage.push("change", {"a.txt": "b"}, base="change")
        assert await client.verdicts(new) == []
        await stage.verdict(new, "test", "success")
        assert [each.state for each in await client.verdicts(old)] == ["failure"]
        assert [each.state for each in await client.verdicts(new)] == ["success"]

    async def test_verdicts_of_all_pages_are_returned(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        commit = await stage.push("change", {"a.txt": "a"})
        names = [f"job {each:02}" for each in range(MANY)]
        for name in names:
            await stage.verdict(commit, name, "success")
        assert [each.name for each in await client.verdicts(commit)] == names

    async def test_a_commit_that_does_not_exist_is_not_found(self, client: ForgeClient) -> None:
        with pytest.raises(NotFound):
            await client.verdicts("0123456789" * 4)

    async def test_a_failure_has_its_step_and_the_end_of_its_log(
        self, client: ForgeClient, stage: ForgeStage
    ) -> None:
        if not stage.abilities.shows_logs:
            pytest.skip("this forge does not show logs")
        commit = await stage.push("change", {"a.txt": "a"})
        log = "".join(f"line {each} größer\n" for each in range(2_000)) + "assert 1 == 2\n"
        await stage.verdict(commit, "test", "failure", step="Run pytest", log=log)
        await stage.verdict(commit, "lint", "success", log="fine\n")
        lint, test = await client.verdicts(commit)
        assert test.step == "Run pytest"
        assert test.tail is not None
        assert "assert 1 == 2" in test.tail.splitlines()[-3:]
        assert "line 1999 größer" in test.tail
        assert len(test.tail.encode()) <= TAIL_BYTES_MAX
        assert "\ufffd" not in test.tail
        assert (lint.step, lint.tail) == (None, None)
