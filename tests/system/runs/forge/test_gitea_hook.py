"""Gitea's own webhook makes a worker look that would wait for minutes; no other delivery does."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import anyio

from bullpen.runs.forge.webhooks.hints import make_hook_secret
from support.doors.web_stage import TEAM, served
from support.forge.gitea_server import GiteaServer
from support.forge.gitea_stage import GiteaStage
from support.forge.hooked import Passed, hooked_worker, on_forge, relay, until


async def test_a_webhook_of_a_real_gitea_brings_an_issue_at_once(
    gitea: GiteaServer, stage: GiteaStage, tmp_path: Path
) -> None:
    make = partial(on_forge, stage=stage, kind="gitea")
    async with served(tmp_path, make=make) as web, hooked_worker(web, stage):
        team, home = web.team, web.bullpen_app.settings.home

        async def tasks(count: int) -> bool:
            return len((await team.tasks.list()).tasks) == count

        await stage.issue("The first look takes this")
        await until(partial(tasks, 1))
        await stage.issue("There is no webhook yet")
        await anyio.sleep(3)
        assert await tasks(1), "nobody told the worker"
        with relay(web.url) as to:
            secret = make_hook_secret(home, TEAM)
            hook = await stage.hook(f"{to.url}/forge/hook", secret)

            async def passed(count: int) -> bool:
                return len(to.passed) >= count

            number = await stage.issue("Add a cart")
            await until(partial(tasks, 3))
            await until(partial(passed, 1))
            (first,) = to.passed
            assert (first.status, names(first)) == (202, number)
            # The button on Gitea's page sends the same again, under another id.
            await stage.send_again(hook, first.headers["X-Gitea-Delivery"])
            await until(partial(passed, 2))
            again = to.passed[1]
            assert again.headers["X-Gitea-Delivery"] != first.headers["X-Gitea-Delivery"]
            assert (again.status, again.body) == (204, first.body), "it is a replay"
            # Somebody changed it on its way; and somebody who does not know the secret.
            changed = first.body.replace(b"Add a cart", b"Add a cars")
            assert changed != first.body
            send = partial(to.send, first.path, first.headers)
            assert await anyio.to_thread.run_sync(send, changed) == 401
            await stage.hook(f"{to.url}/forge/hook", "k" * 43, instead_of=hook)
            await stage.issue("Nobody hears of this")
            await until(partial(passed, 3))
            assert to.passed[2].status == 401
            await anyio.sleep(3)
            assert await tasks(3), "a forged delivery was heard"


def names(delivery: Passed) -> int:
    """Return which issue a delivery is about."""
    assert delivery.headers["X-Gitea-Event"] == "issues"
    return int(json.loads(delivery.body)["issue"]["number"])
