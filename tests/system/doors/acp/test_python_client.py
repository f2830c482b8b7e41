"""The client of the official Python SDK drives a team as it drives any agent."""

from __future__ import annotations

import signal

import anyio
import pytest
from acp import RequestError

from support.doors.acp_editor import DEADLINE_S, Editor, Talk


async def until_words(talk: Talk, text: str) -> None:
    with anyio.fail_after(DEADLINE_S):
        while text not in talk.heard.words():  # noqa: ASYNC110 - another process says it
            await anyio.sleep(0.05)


async def test_a_prompt_is_answered_with_words_calls_a_plan_and_a_question(editor: Editor) -> None:
    async with editor.talk() as talk:
        session = await talk.open(editor.project)
        assert not (editor.home / "teams").exists(), "the team begins with the first prompt"
        assert await talk.say(session, "Begin with the parser") == "end_turn"
        heard = talk.heard
        assert heard.words() == "Which grammar?"
        steps = heard.of("plan")[-1]["entries"]
        assert [(step["content"], step["status"]) for step in steps] == [
            ("#1 Write the parser", "pending")
        ]
        (asked,) = heard.asked
        call = next(each for each in heard.of("tool_call") if each["kind"] == "execute")
        assert (asked.tool_call_id, asked.raw_input) == (
            call["toolCallId"],
            {"command": "touch made"},
        )
        assert heard.options[0][0] == "allow_once" and heard.options[0][-1] == "reject_once"
        assert "allow_always" in heard.options[0]
        assert (editor.project / "made").exists()
        assert await talk.say(session, "grammar B") == "end_turn"
        assert heard.words().endswith("I heard you.")
    assert await editor.ends(session) == ["suspended"], "nothing is left running"


async def test_a_cancelled_question_is_denied(editor: Editor) -> None:
    async with editor.talk() as talk:
        talk.heard.answer = None
        session = await talk.open(editor.project)
        stopped: list[str] = []

        async def begin() -> None:
            stopped.append(await talk.say(session, "Begin"))

        async with anyio.create_task_group() as group:
            group.start_soon(begin)
            with anyio.fail_after(DEADLINE_S):
                while not talk.heard.asked:  # noqa: ASYNC110 - another process asks
                    await anyio.sleep(0.05)
            await talk.client.cancel(session_id=session)
        assert stopped == ["cancelled"]
    assert not (editor.project / "made").exists()


async def test_a_later_process_replays_the_conversation_and_goes_on(editor: Editor) -> None:
    async with editor.talk() as talk:
        session = await talk.open(editor.project)
        await talk.say(session, "Begin")
        assert await talk.say(session, "That is enough") == "end_turn"
        assert talk.heard.words().count("It is planned.") == 1
    async with editor.talk() as later:
        listed = await later.client.list_sessions(cwd=str(editor.project))
        assert [each.session_id for each in listed.sessions] == [session]
        with pytest.raises(RequestError, match="works in"):
            await later.client.load_session(
                cwd=str(editor.home), session_id=session, mcp_servers=[]
            )
        await later.client.load_session(cwd=str(editor.project), session_id=session, mcp_servers=[])
        heard = later.heard
        assert heard.words("user_message_chunk") == "BeginThat is enough"
        assert heard.words().startswith("Which grammar?")
        assert heard.of("plan")[-1]["entries"][0]["content"] == "#1 Write the parser"
        heard.updates.clear()
        assert await later.say(session, "One thing more") == "end_turn"
        assert heard.words() == "I heard you.", "the goal was reached, and there is more to say"


async def test_two_sessions_are_two_teams(editor: Editor) -> None:
    async with editor.talk() as talk:
        one, two = editor.project, editor.project.parent / "two"
        first, second = await talk.open(one), await talk.open(two)
        async with anyio.create_task_group() as group:
            group.start_soon(talk.say, first, "Begin")
            group.start_soon(talk.say, second, "Begin")
        for session in (first, second):
            assert talk.heard.words(session=session) == "Which grammar?"
        assert (one / "made").exists() and (two / "made").exists()
        await talk.client.close_session(session_id=first)
        assert await editor.ends(first) == ["suspended"]
        assert await talk.say(second, "go on") == "end_turn"
        with pytest.raises(RequestError, match="no open session"):
            await talk.say(first, "are you there?")


async def test_a_mode_that_was_not_offered_is_refused(editor: Editor) -> None:
    async with editor.talk() as talk:
        opened = await talk.client.new_session(cwd=str(editor.project), mcp_servers=[])
        session = opened.session_id
        assert "bypassPermissions" not in [mode.id for mode in opened.modes.available_modes]
        with pytest.raises(RequestError, match="not offered"):
            await talk.client.set_session_mode(session_id=session, mode_id="bypassPermissions")
        await talk.client.set_session_mode(session_id=session, mode_id="dontAsk")
        await talk.say(session, "Begin")
        assert talk.heard.asked == []
    assert not (editor.project / "made").exists()


@pytest.mark.parametrize("how", ["closes its end", "SIGTERM"])
async def test_nothing_is_left_running_when_the_client_goes(editor: Editor, how: str) -> None:
    async with editor.talk() as talk:
        session = await talk.open(editor.project)
        async with anyio.create_task_group() as group:
            group.start_soon(_fails, talk, session)
            await until_words(talk, "I wait.")
            if how == "SIGTERM":
                talk.process.send_signal(signal.SIGTERM)
            else:
                talk.leave()
            with anyio.fail_after(DEADLINE_S):
                assert await talk.process.wait() == 0
            group.cancel_scope.cancel()
    assert await editor.ends(session) == ["suspended"]


async def _fails(talk: Talk, session: str) -> None:
    with pytest.raises((RequestError, ConnectionError)):
        await talk.say(session, "wait for me")
