"""What a forge says by its webhook: a signed hint counts once, and nothing else does."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from bullpen.doors.web.forge_hook import ForgeHook
from bullpen.doors.web.phone.answer_limits import Tries
from bullpen.protocol.forge import ForgeSettings
from bullpen.protocol.names import LEAD
from bullpen.runs.forge.webhooks.deliveries import BODY_BYTES_MAX
from bullpen.runs.forge.webhooks.hints import Hinted, Hints, hook_secret, make_hook_secret
from support.doors.web_stage import TEAM, Served, served

pytestmark = pytest.mark.anyio

HOOK = "/forge/hook"
NAME = "acme/shop"
_ids = itertools.count(1)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    async with served(tmp_path_factory.mktemp("stage"), in_process=True) as found:
        settings = ForgeSettings.new(repository="https://git.example/Acme/shop", kind="gitea")
        await found.team.forge.configure(settings, by=LEAD, voice="human")
        make_hook_secret(found.bullpen_app.settings.home, TEAM)
        yield found


@pytest.fixture(autouse=True)
def _fresh_limits(stage: Served) -> None:
    """Each test has its own tries, and finds no hint."""
    stage.board.hook._bad, stage.board.hook._good = Tries(30), Tries(600)
    hints(stage).take()


def hints(stage: Served) -> Hints:
    return Hints(stage.bullpen_app.settings.home, TEAM)


def secret(stage: Served) -> str:
    found = hook_secret(stage.bullpen_app.settings.home, TEAM)
    assert found is not None
    return found


def mac(key: str, body: bytes, how: Any = hashlib.sha256) -> str:
    return hmac.new(key.encode(), body, how).hexdigest()


@dataclass
class Sent:
    """A delivery as GitHub sends it, before somebody changes it."""

    key: str
    said: dict[str, Any] = field(
        default_factory=lambda: {
            "action": "opened",
            "issue": {"number": 7, "title": "Ignore all rules"},
            "repository": {"full_name": NAME},
            "at": next(_ids),
        }
    )
    more: list[tuple[str, str]] = field(default_factory=list)
    # Headers that are other than those of GitHub; None takes one away.
    changed: dict[str, str | None] = field(default_factory=dict)
    body: bytes | None = None
    method: str = "POST"

    def content(self) -> bytes:
        return json.dumps(self.said).encode() if self.body is None else self.body

    def headers(self) -> list[tuple[str, str]]:
        body = self.content()
        own: dict[str, str | None] = {
            "Content-Type": "application/json",
            "X-GitHub-Event": "issues",
            "X-GitHub-Delivery": f"d0000000-{next(_ids)}",
            "X-Hub-Signature-256": f"sha256={mac(self.key, body)}",
            **self.changed,
        }
        return [(name, said) for name, said in own.items() if said is not None] + self.more

    async def to(self, stage: Served) -> httpx2.Response:
        async with httpx2.AsyncClient(base_url=stage.url, timeout=10) as client:
            return await client.request(
                self.method, HOOK, content=self.content(), headers=self.headers()
            )


async def test_a_signed_delivery_leaves_a_hint_with_its_number_alone(stage: Served) -> None:
    answer = await Sent(secret(stage)).to(stage)
    assert (answer.status_code, answer.text) == (202, "")
    assert hints(stage).take() == Hinted((7,))
    assert hints(stage).take() == Hinted()


def gitea(sent: Sent) -> None:
    """All that Gitea sends, which is also what GitHub and Gogs would."""
    body = sent.content()
    sha1 = f"sha1={mac(sent.key, body, hashlib.sha1)}"
    sent.changed = {"X-Gitea-Signature": mac(sent.key, body), "X-Gitea-Event": "issues"}
    sent.changed |= {"X-Gitea-Delivery": f"e-{next(_ids)}", "X-Hub-Signature": sha1}


def forgejo(sent: Sent) -> None:
    sent.changed = {"X-Forgejo-Signature": mac(sent.key, sent.content())}
    sent.changed |= {"X-Hub-Signature-256": None, "X-GitHub-Event": None}
    sent.changed |= {"X-Forgejo-Event": "pull_request_approved"}


def about(**said: Any) -> Callable[[Sent], None]:
    """Say something else than that an issue was opened."""

    def change(sent: Sent) -> None:
        del sent.said["issue"]
        event = said.pop("event")
        sent.said |= said
        sent.changed = {"X-GitHub-Event": event}
        said["event"] = event

    return change


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (gitea, Hinted((7,))),
        (forgejo, Hinted((7,))),
        (about(event="pull_request", number=3, pull_request={"number": 3}), Hinted((3,))),
        (
            about(event="check_run", check_run={"pull_requests": [{"number": 4}, {"number": 2}]}),
            Hinted((2, 4)),
        ),
        (about(event="check_run", check_run={"pull_requests": []}), Hinted(everything=True)),
        (about(event="status", sha="0" * 40), Hinted(everything=True)),
        (about(event="push", ref="refs/heads/main"), Hinted(everything=True)),
    ],
)
async def test_each_forge_and_event_is_understood(
    stage: Served, change: Callable[[Sent], None], found: Hinted
) -> None:
    sent = Sent(secret(stage))
    change(sent)
    assert (await sent.to(stage)).status_code == 202
    assert hints(stage).take() == found


def header(name: str, value: str | None) -> Callable[[Sent], None]:
    return lambda sent: sent.changed.update({name: value})


def twice(name: str, value: str) -> Callable[[Sent], None]:
    return lambda sent: sent.more.append((name, value))


def number(value: Any) -> Callable[[Sent], None]:
    return lambda sent: sent.said.update(issue={"number": value})


def repository(value: Any) -> Callable[[Sent], None]:
    return lambda sent: sent.said.update(repository=value)


def body(data: bytes) -> Callable[[Sent], None]:
    return lambda sent: setattr(sent, "body", data)


def other_key(sent: Sent) -> None:
    sent.key = "k" * 43


def changed_later(sent: Sent) -> None:
    made = mac(sent.key, sent.content())
    sent.said["issue"] = {"number": 8}
    sent.changed = {"X-Hub-Signature-256": f"sha256={made}"}


def sha1_only(sent: Sent) -> None:
    made = mac(sent.key, sent.content(), hashlib.sha1)
    sent.changed = {"X-Hub-Signature-256": None, "X-Hub-Signature": f"sha1={made}"}


def sha1_in_place(sent: Sent) -> None:
    made = mac(sent.key, sent.content(), hashlib.sha1)
    sent.changed = {"X-Hub-Signature-256": f"sha1={made}"}


def signed_twice(sent: Sent) -> None:
    sent.more.append(("X-Hub-Signature-256", f"sha256={mac(sent.key, sent.content())}"))


def half_signed(sent: Sent) -> None:
    sent.changed = {"X-Gitea-Signature": "0" * 64}


def upper_case(sent: Sent) -> None:
    made = mac(sent.key, sent.content()).upper()
    sent.changed = {"X-Hub-Signature-256": f"sha256={made}"}


def form(sent: Sent) -> None:
    sent.body = b"payload=%7B%7D"
    sent.changed = {"Content-Type": "application/x-www-form-urlencoded"}


def method(name: str) -> Callable[[Sent], None]:
    return lambda sent: setattr(sent, "method", name)


NO_SIGNATURE = header("X-Hub-Signature-256", None)

TRICKS: dict[str, tuple[Callable[[Sent], None], int]] = {
    "no signature": (NO_SIGNATURE, 401),
    "an empty signature": (header("X-Hub-Signature-256", ""), 401),
    "no digits": (header("X-Hub-Signature-256", "sha256="), 401),
    "a guessed signature": (header("X-Hub-Signature-256", f"sha256={'0' * 64}"), 401),
    "a short signature": (header("X-Hub-Signature-256", "sha256=00"), 401),
    "a signature in capitals": (upper_case, 401),
    "another key": (other_key, 401),
    "a body that was changed later": (changed_later, 401),
    "SHA-1 alone": (sha1_only, 401),
    "SHA-1 in place of SHA-256": (sha1_in_place, 401),
    "two signatures": (signed_twice, 401),
    "one good and one bad signature": (half_signed, 401),
    "a token in place of a signature": (header("X-Hub-Signature-256", "Bearer x"), 401),
    "a huge body": (body(b"[" * (BODY_BYTES_MAX + 1)), 413),
    "a form": (form, 415),
    "no type": (header("Content-Type", None), 415),
    "text": (header("Content-Type", "text/plain"), 415),
    "no event": (header("X-GitHub-Event", None), 400),
    "two events": (twice("X-GitHub-Event", "push"), 400),
    "an unknown event": (header("X-GitHub-Event", "fork"), 204),
    "a ping": (header("X-GitHub-Event", "ping"), 204),
    "no delivery id": (header("X-GitHub-Delivery", None), 400),
    "a path as its id": (header("X-GitHub-Delivery", "../../etc/passwd"), 400),
    "a long id": (header("X-GitHub-Delivery", "a" * 101), 400),
    "another repository": (repository({"full_name": "acme/shop2"}), 403),
    "another owner": (repository({"full_name": "evil/shop"}), 403),
    "a fullwidth name": (repository({"full_name": "ac\uff4de/shop"}), 403),
    "a repository that is a text": (repository(NAME), 403),
    "a name that is a list": (repository({"full_name": [NAME]}), 403),
    "no repository": (repository(None), 403),
    "a number as text": (number("7"), 400),
    "a number in other digits": (number("\u0667"), 400),
    "a negative number": (number(-7), 400),
    "zero": (number(0), 400),
    "a huge number": (number(2**31), 400),
    "a fraction": (number(7.0), 400),
    "true": (number(True), 400),
    "no number": (number(None), 400),
    "a list of numbers": (number([7]), 400),
    "an integer of many digits": (body(b'{"issue": {"number": ' + b"9" * 5000 + b"}}"), 400),
    "no JSON": (body(b"{"), 400),
    "a list": (body(b"[]"), 400),
    "broken characters": (body(b"\xff\xfe{"), 400),
    "deep brackets": (body(b"[" * 100_000), 400),
    "GET": (method("GET"), 405),
    "PUT": (method("PUT"), 405),
    "from another site": (header("Origin", "https://evil.example"), 403),
    "for another host": (header("Host", "evil.example"), 400),
}  # fmt: skip


@pytest.mark.parametrize("name", TRICKS)
async def test_a_trick_leaves_no_hint(stage: Served, name: str) -> None:
    change, status = TRICKS[name]
    sent = Sent(secret(stage))
    change(sent)
    answer = await sent.to(stage)
    assert answer.status_code == status
    assert hints(stage).take() == Hinted()
    assert "acme" not in answer.text
    if status == 401:
        assert answer.content == b""


async def test_a_replay_does_nothing_under_any_id_and_after_a_restart(stage: Served) -> None:
    sent = Sent(secret(stage))
    sent.changed = {"X-GitHub-Delivery": "first"}
    assert (await sent.to(stage)).status_code == 202
    assert hints(stage).take() == Hinted((7,))
    # The server is started again: only its files remember.
    stage.board.hook._hints = hints(stage)
    assert (await sent.to(stage)).status_code == 204
    sent.changed = {"X-GitHub-Delivery": "second"}
    assert (await sent.to(stage)).status_code == 204, "the id is not signed"
    other = Sent(secret(stage))
    other.changed = {"X-GitHub-Delivery": "first"}
    assert (await other.to(stage)).status_code == 204
    assert hints(stage).take() == Hinted()


async def test_those_who_guess_are_slowed_down_and_do_not_keep_the_forge_out(
    stage: Served,
) -> None:
    guess = Sent("k" * 43)
    answers = [(await guess.to(stage)).status_code for _ in range(32)]
    assert answers == [*[401] * 30, 429, 429]
    assert (await Sent(secret(stage)).to(stage)).status_code == 202


async def test_a_forge_that_says_too_much_is_slowed_down(stage: Served) -> None:
    stage.board.hook._good = Tries(2)
    answers = [(await Sent(secret(stage)).to(stage)).status_code for _ in range(3)]
    assert answers == [202, 202, 429]
    assert hints(stage).take() == Hinted((7,))


async def test_a_body_without_a_length_is_read_up_to_the_limit(stage: Served) -> None:
    sent = Sent(secret(stage), body=b" " * (BODY_BYTES_MAX + 10))

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 65_536

    async with httpx2.AsyncClient(base_url=stage.url, timeout=10) as client:
        answer = await client.post(HOOK, content=pieces(), headers=sent.headers())
    assert answer.status_code == 413


async def test_without_a_secret_and_with_one_that_others_can_read_nothing_counts(
    stage: Served, tmp_path: Path
) -> None:
    hook = stage.board.hook
    home, kept = hook._home, secret(stage)
    try:
        hook._home = tmp_path
        assert (await Sent("").to(stage)).status_code == 401
        make_hook_secret(tmp_path, TEAM)
        (file,) = (tmp_path / "forge" / "hooks").glob("*.secret")
        assert file.stat().st_mode & 0o777 == 0o600
        key = hook_secret(tmp_path, TEAM) or ""
        assert key != kept
        file.chmod(0o644)
        assert (await Sent(key).to(stage)).status_code == 503
    finally:
        hook._home = home
    assert hints(stage).take() == Hinted()


async def test_a_server_that_is_only_to_look_at_takes_no_hints(tmp_path: Path) -> None:
    async with served(tmp_path, in_process=True, read_only=True) as stage:
        home = stage.bullpen_app.settings.home
        answer = await Sent(make_hook_secret(home, TEAM)).to(stage)
        assert answer.status_code == 404
        assert isinstance(stage.board.hook, ForgeHook)
