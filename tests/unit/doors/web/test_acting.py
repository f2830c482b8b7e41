"""The forms of the pages: what they offer, what they do, and how scripts are answered."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import pytest

from bullpen.doors.actions.changes import Changes
from bullpen.protocol.clock import now_ms
from bullpen.protocol.presence import Presence
from bullpen.protocol.request import Request
from bullpen.view.diff import edit_diff
from support.doors.web_stage import HOSTILE, PUSH, Served, ask, hire, served

pytestmark = pytest.mark.anyio

SCRIPT = {"Accept": "application/json"}
FOUR = [
    {"name": "line", "covers": "exactly this command line", "suggestions": [PUSH]},
    {"name": "program", "covers": "this program with any arguments", "suggestions": [PUSH]},
]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    async with served(tmp_path_factory.mktemp("stage"), in_process=True) as found:
        yield found


@pytest.fixture
async def client(stage: Served) -> AsyncIterator[httpx2.AsyncClient]:
    headers = {"Authorization": f"Bearer {stage.tokens.acting}"}
    async with httpx2.AsyncClient(base_url=stage.url, headers=headers, timeout=20) as found:
        yield found


async def asked(stage: Served, client: httpx2.AsyncClient, request: Request) -> str:
    """The request as the page of all requests shows it, once it does."""
    with anyio.fail_after(30):
        while True:
            page = (await client.get("/waiting")).text
            found = re.search(rf'<li id="ask-{re.escape(request.id)}".*?\n</li>', page, re.DOTALL)
            if found is not None:
                return found[0]
            await anyio.lowlevel.checkpoint()
    raise AssertionError("The page does not show the request.")


async def shows(client: httpx2.AsyncClient, path: str, text: str) -> None:
    """Wait until a page shows a text."""
    with anyio.fail_after(30):
        while text not in (await client.get(path)).text:
            await anyio.lowlevel.checkpoint()


async def answer(client: httpx2.AsyncClient, request: Request, act: str, **more: str) -> Any:
    fields = {"id": request.id, "digest": request.digest or "", **more}
    return await client.post(f"/act/{act}", data=fields, headers=SCRIPT)


async def test_a_script_gets_the_result_and_a_form_without_script_a_page(
    client: httpx2.AsyncClient,
) -> None:
    fields = {"to": "bob", "text": "Hello.", "back": "/?member=bob"}
    told = await client.post("/act/send", data=fields, headers=SCRIPT)
    assert (told.status_code, told.json()) == (200, {"note": "Sent to bob."})
    plain = await client.post("/act/send", data=fields)
    assert (plain.status_code, plain.headers["location"]) == (303, "/?member=bob")
    failed = await client.post("/act/send", data={**fields, "to": "nobody"}, headers=SCRIPT)
    assert failed.status_code == 404
    assert failed.json()["message"] and failed.json()["remedy"]
    page = await client.post("/act/send", data={**fields, "to": "nobody"})
    assert page.status_code == 404
    assert 'href="/?member=bob"' in page.text


async def test_always_offers_its_choices_from_narrow_to_wide_and_allows_the_chosen_one(
    stage: Served, client: httpx2.AsyncClient
) -> None:
    request = await stage.team.approvals.ask_permission(
        "Bash", {"command": "make x"}, by="alice", approver="human", deadline_s=600,
        suggestions=(PUSH,), choices=FOUR,
    )  # fmt: skip
    shown = await asked(stage, client, request)
    narrow = shown.index('name="choice" value="line">exactly this command line')
    assert narrow < shown.index('name="choice" value="program">this program with any arguments')
    told = await answer(client, request, "approve", choice="program")
    assert told.json() == {"note": "Allowed what alice asked for."}
    given = (await stage.team.approvals.get(request.id)).answer or {}
    assert (given["always"], given["choice"]) == (True, "program")


async def test_allow_alone_allows_nothing_for_later(
    stage: Served, client: httpx2.AsyncClient
) -> None:
    request = await ask(stage.team, "bob", "make y")
    await asked(stage, client, request)
    await answer(client, request, "approve")
    given = (await stage.team.approvals.get(request.id)).answer or {}
    assert not given.get("always")


async def test_a_command_is_edited_by_itself_and_keeps_the_rest_of_the_input(
    stage: Served, client: httpx2.AsyncClient
) -> None:
    given = {"command": "make x", "description": "Build"}
    request = await stage.team.approvals.ask_permission(
        "Bash", given, by="alice", approver="human", deadline_s=600
    )
    assert 'name="command"' in await asked(stage, client, request)
    await answer(client, request, "approve", command="make -n x")
    answered = await stage.team.approvals.get(request.id)
    assert answered.raw["answer"]["updatedInput"] == {**given, "command": "make -n x"}


async def test_a_command_that_a_field_would_change_is_edited_as_json(
    stage: Served, client: httpx2.AsyncClient
) -> None:
    for command in ("printf 'a\r\nb'", "echo \x1b[31m", "echo \u202eabc"):
        request = await ask(stage.team, "alice", command)
        shown = await asked(stage, client, request)
        assert 'name="command"' not in shown, command
        fields = re.search(r'<textarea name="changed"[^>]*>(.*?)</textarea>', shown, re.DOTALL)
        assert fields is not None
        await answer(client, request, "approve", changed=html.unescape(fields[1]))
        answered = await stage.team.approvals.get(request.id)
        assert (answered.answer or {}).get("updatedInput") is None, command


async def test_an_option_of_a_question_is_one_button(
    stage: Served, client: httpx2.AsyncClient
) -> None:
    colour = {"question": "Which?", "options": [{"label": "Red"}, {"label": "<b>Blue</b>"}]}
    request = await stage.team.approvals.ask_question([colour], by="alice")
    shown = await asked(stage, client, request)
    assert '<button name="option" value="2">&lt;b&gt;Blue&lt;/b&gt;</button>' in shown
    told = await answer(client, request, "approve", option="2")
    assert told.json() == {"note": "Answered alice."}
    assert ((await stage.team.approvals.get(request.id)).answer or {})["feedback"] == "<b>Blue</b>"


async def test_an_edit_that_is_asked_for_is_a_diff_with_numbers(
    stage: Served, client: httpx2.AsyncClient
) -> None:
    pending = await stage.team.approvals.pending()
    request = next(each for each in pending if each.subject.get("toolName") == "Edit")
    shown = await asked(stage, client, request)
    assert '<tr class="removed"><td class="no">2</td><td class="no"></td>' in shown
    assert '<tr class="added"><td class="no"></td><td class="no">2</td>' in shown
    assert "notes.txt (one occurrence)" in shown


async def test_changes_to_guarded_paths_are_shown_with_every_line_of_their_diff(
    stage: Served, client: httpx2.AsyncClient
) -> None:
    diff = (
        "diff --git a/.git/hooks/x b/.git/hooks/x\n--- a/x\n+++ b/x\n@@ -3,2 +3,2 @@\n"
        " same\n-- old\n++ new\ndiff --git a/y b/y\n--- a/y\n+++ b/y\n@@ -9 +9 @@\n-a\n+b\n"
    )
    given = {"changes": [{"path": ".git/hooks/x", "what": "changed"}], "diff": diff, "look": "l"}
    request = await stage.team.approvals.ask_permission(
        "GuardedPaths", given, by="alice", approver="human", deadline_s=600
    )
    shown = await asked(stage, client, request)
    for line in diff.splitlines():
        text = line[1:] if line[:1] in "+- " and not line.startswith(("---", "+++ b")) else line
        assert html.escape(text) in shown, line


async def test_the_changes_of_a_member_are_shown_and_take_a_comment(
    stage: Served, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def member_changes(*_: object, **__: object) -> Changes:
        edit = edit_diff("lex.py", "one\ntwo\n", "one\nTWO\n", first=1)
        return Changes("alice", "0123456789abcdef", (edit, edit_diff(HOSTILE[1], "", "x")))

    monkeypatch.setattr("bullpen.doors.web.app.member_changes", member_changes)
    page = (await client.get("/changes?member=alice")).text
    assert "<b>2</b> files changed" in page
    assert 'data-path="lex.py"' in page and "0123456789ab" in page
    assert "<img" not in page
    fields = {"to": "alice", "path": "lex.py", "line": "2", "quoted": "+TWO", "text": "Why?"}
    told = await client.post("/act/comment", data=fields, headers=SCRIPT)
    assert told.json() == {"note": "Sent your comment on lex.py, line 2 to alice."}
    wrong = await client.post("/act/comment", data={**fields, "line": "two"}, headers=SCRIPT)
    assert wrong.status_code == 400
    looks = {"Authorization": f"Bearer {stage.tokens.looking}"}
    page = (await client.get("/changes?member=alice", headers=looks)).text
    assert 'data-path="lex.py"' in page
    assert "Comment on this file" not in page and "may-comment" not in page


async def test_what_cannot_be_shown_of_a_member_or_task_is_said(
    client: httpx2.AsyncClient,
) -> None:
    assert "build-7" in (await client.get("/changes?member=bob")).text
    assert "Nobody has worked on it yet." in (await client.get("/changes?task=5")).text
    assert (await client.get("/changes?member=nobody")).status_code == 404
    assert (await client.get("/changes?task=99")).status_code == 404
    assert (await client.get("/transcript?name=nobody")).status_code == 404
    assert "no record of carol" in (await client.get("/?member=carol")).text


async def test_the_budget_is_set_and_removed_and_nonsense_refused(
    stage: Served, client: httpx2.AsyncClient
) -> None:
    told = await client.post("/act/budget", data={"usd": "$2.50"}, headers=SCRIPT)
    assert told.json() == {"note": "The budget of the team is now $2.50."}
    assert (await stage.team.agents.limits()).usd == 2.5
    wrong = await client.post("/act/budget", data={"usd": "much"}, headers=SCRIPT)
    assert wrong.status_code == 400
    for usd in ("nan", "-1"):
        refused = await client.post("/act/budget", data={"usd": usd}, headers=SCRIPT)
        assert refused.status_code == 400, usd
    told = await client.post("/act/budget", data={"usd": ""}, headers=SCRIPT)
    assert told.json() == {"note": "The team has no budget limit any more."}
    assert (await stage.team.agents.limits()).usd is None


async def test_a_run_is_finished_only_if_it_is_meant(
    stage: Served, client: httpx2.AsyncClient
) -> None:
    refused = await client.post("/act/finish", data={"summary": "Done."}, headers=SCRIPT)
    assert refused.status_code == 400
    await client.post("/act/finish", data={"summary": "Done.", "sure": "yes"}, headers=SCRIPT)
    result = await stage.team.agents.result()
    assert result is not None and result.summary == "Done."


async def test_no_page_shows_the_ids_of_requests_as_text(
    stage: Served, client: httpx2.AsyncClient
) -> None:
    nonce = await hire(stage.team, "frank")
    waits = "permission from the lead for Bash git push (perm-1794828177377-39274b6)"
    beat = Presence.new(
        agent="frank", state="waiting", since_ms=now_ms(), beat_ms=now_ms(), ttl_ms=60_000,
        detail=waits, nonce=nonce, host="build-7", pid=4711,
    )  # fmt: skip
    await stage.team.agents.beat(beat)
    await shows(client, "/member?name=frank", "for Bash git push")
    pages = ("/", "/waiting", "/member?name=frank", "/tasks", "/messages?notices=yes")
    for path in pages:
        text = re.sub(r"<[^>]*>", " ", (await client.get(path)).text)
        assert "perm-" not in text, path


async def test_the_title_counts_what_waits(stage: Served, client: httpx2.AsyncClient) -> None:
    request = await ask(stage.team, "carol", "make w")
    await asked(stage, client, request)
    pending = len(await stage.team.approvals.pending())
    assert f"<title>({pending}) alpha</title>" in (await client.get("/")).text
    await answer(client, request, "deny")
    left = f"<title>({pending - 1}) alpha</title>" if pending > 1 else "<title>alpha</title>"
    await shows(client, "/", left)
