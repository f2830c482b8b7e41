"""Which texts are secrets, in which forms they are found, and what is left alone."""

from __future__ import annotations

import base64
import io
import json
import shlex
import sys
import traceback
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bullpen.agents.system.secrets import RedactedFile, Redactor, names_a_secret, redactor_of
from support.rows import each_row

VALUE = "pa55 w'or\"d/+é\\x"
KEY = f"sk-ant-api03-canary-0123456789-{'aBcDeFgHiJ' * 6}-0123456789ab"
ENV = {
    "PATH": "/usr/bin",
    "MY_TOKEN": VALUE,
    "ANTHROPIC_API_KEY": KEY,
    "HTTPS_PROXY": "http://ann:pr0xyp4ss@proxy.example:3128",
    "DATABASE_URL": "postgres://app:s3cr%2Ft99@db/app",
    "LANG": "en_US.UTF-8",
}


@each_row(
    "name",
    [
        *("OPENAI_API_KEY", "MY_TOKEN", "DB_PASSWORD", "PGPASSWD", "SECRET", "COOKIE", "DB_PWD"),
        *("AWS_SECRET_ACCESS_KEY", "GITHUBTOKEN", "SENTRY_DSN", "BASIC_AUTH", "APIKEY", "NPM_PAT"),
        *("TLS_KEY", "signing_secret", "GOOGLE_CREDENTIALS"),
    ],
)
def test_a_name_that_says_secret_holds_one(name: str) -> None:
    assert names_a_secret(name)


@each_row(
    "name",
    [
        *("PATH", "PWD", "OLDPWD", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "SSH_AUTH_SOCK", "HOME"),
        *("TOKENIZERS_PARALLELISM", "KEYBOARD", "MONKEYS", "AUTHOR", "PASSING", "BULLPEN_NONCE"),
    ],
)
def test_other_names_do_not(name: str) -> None:
    assert not names_a_secret(name)


@each_row(
    "form",
    [
        VALUE,
        quote(VALUE, safe=""),
        json.dumps(VALUE)[1:-1],
        json.dumps(VALUE, ensure_ascii=False)[1:-1],
        shlex.quote(VALUE),
        base64.b64encode(VALUE.encode()).decode().rstrip("="),
        base64.urlsafe_b64encode(VALUE.encode()).decode().rstrip("="),
        VALUE.encode().hex(),
        VALUE.encode().hex().upper(),
        "pr0xyp4ss",
        "s3cr%2Ft99",
        "s3cr/t99",
        KEY,
    ],
)
def test_a_value_is_found_in_every_form(form: str) -> None:
    text = Redactor(ENV).text(f"before {form} after {form}")
    assert form not in text
    assert text.count("[secret ") == 2
    assert text.startswith("before ")


@pytest.mark.parametrize("before", ["", "a", "ab", "user:"])
def test_a_value_is_found_in_the_base64_of_more_than_itself(before: str) -> None:
    encoded = base64.b64encode(f"{before}{KEY}\n".encode()).decode()
    shown = Redactor(ENV).text(f"Basic {encoded}")
    left = shown.replace("[secret ANTHROPIC_API_KEY]", "")
    assert "[secret ANTHROPIC_API_KEY]" in shown
    assert len(left) < len("Basic ") + len(before) * 2 + 8


def test_a_value_is_found_in_base64_that_is_broken_into_lines() -> None:
    encoded = base64.encodebytes(KEY.encode()).decode()
    assert encoded.count("\n") > 1
    shown = Redactor(ENV).text(encoded)
    assert all(line not in shown for line in encoded.splitlines()[:1])
    assert len(shown.replace("[secret ANTHROPIC_API_KEY]", "").strip()) < 12


def test_what_was_given_by_name_is_a_secret_unless_it_is_plain() -> None:
    env = {"FOO": "xK9-22-plugh", "NODE_ENV": "development", "GOPATH": "/root/go", "N": "1234567"}
    text = "xK9-22-plugh development /root/go 1234567"
    assert Redactor(env).text(text) is text
    assert Redactor(env, env).text(text) == "[secret FOO] development /root/go 1234567"
    assert redactor_of({**env, "LANG": "xK9-22-other"}).text(f"{text} xK9-22-other") == (
        "[secret FOO] development /root/go 1234567 xK9-22-other"
    )


def test_a_path_that_is_there_and_a_short_value_are_left_alone(tmp_path: Path) -> None:
    env = {"GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path), "A_TOKEN": "short", "B_KEY": ""}
    text = f"short {tmp_path} "
    assert Redactor(env).text(text) is text


PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\n"
    + ("MIIEpAIBAAKCAQEA" * 4 + "\n") * 3
    + ("-----END RSA PRIVATE KEY-----")
)
TOKENS = [
    "sk-ant-api03-AbCdEfGhIjKl",
    "sk-proj-a1B2c3D4e5F6g7H8i9J0",
    "ghp_" + "aB3" * 12,
    "github_pat_11ABCDEFG0" + "x1" * 20,
    "xoxb-123456789012-abcdefghij",
    "AKIAIOSFODNN7EXAMPLE",
    "AIza" + "Sy0-_" * 7,
    "glpat-AbCdEf123456-xyz_9",
    "npm_" + "aB3" * 12,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN",
    "bp_" + "aB3-" * 11,
    "bph_" + "aB3_" * 11,
    "bpw_" + "aB3-" * 11,
    "bpt_" + "a1b2" * 8,
    "SUAIBDPBAUTWCWBKIO6XHQNINK5FWJW4OHLXC3HQ2KFE4PEJUA44CNHTC4",
    "SAACFBYTS7NJPBNCSYNLXQY6TBA5ZTQAL4QFCP3HSAN5VXCRBGQJ5VQT3E",
    "gsk_" + "a1B2" * 13,
    "xai-" + "a1B2" * 20,
    "sk-or-v1-" + "0a" * 32,
    "r8_" + "a1" * 18,
    "pplx-" + "a1B2" * 12,
    "ya29." + "a0-_" * 15,
    "SG." + "a" * 22 + "." + "b" * 43,
    "SK" + "0a" * 16,
    "dop_v1_" + "0a" * 32,
    "hvs." + "aB-" * 10,
    "dp.pt." + "aB" * 20,
    "AGE-SECRET-KEY-1" + "QP" * 29,
    "tskey-auth-" + "aB3" * 8,
    "sb_secret_" + "aB3" * 8,
    "lin_api_" + "aB" * 20,
    "figd_" + "aB-" * 14,
    "dapi" + "0a" * 16,
    PEM,
    PEM.replace("\n", "\\n"),
]


@each_row("token", TOKENS, ids=lambda token: token[:12])
@each_row("around", ["{}", "key={} ok", '{{"a": "{}"}}', "\\n{}\\n", "({})"])
def test_a_token_is_known_by_its_shape(token: str, around: str) -> None:
    shown = Redactor({}).text(around.format(token))
    assert shown == around.format("[secret]")


@each_row(
    ("text", "shown"),
    [
        ("Authorization: Bearer abcdefgh1234", "Authorization: Bearer [secret]"),
        ("authorization: Basic dXNlcjpwYXNz", "authorization: Basic [secret]"),
        ("curl -H 'X: y' bearer a1b2c3d4e5f6g7h8i9j0", "curl -H 'X: y' bearer [secret]"),
        ("password=hG7x2Kp9Qw4z", "password=[secret]"),
        ('"api_key": "9f8e7d6c5b4a3f2e1d0c"', '"api_key": "[secret]"'),
        ("DB_PASSWORD = 'x9Kq2-Lm4_Zr8'", "DB_PASSWORD = '[secret]'"),
        ("AccountKey=a1B2c3D4e5F6g7H8i9==;", "AccountKey=[secret];"),
        ("postgres://user:Sup3rS3cretPw@db/x", "postgres://user:[secret]@db/x"),
        ("BULLPEN_NONCE=1f2e3d4c-0a1b2c3d4e5f6a7b8c9d0e1f", "BULLPEN_NONCE=[secret]"),
        ("http://127.0.0.1:8/?token=FAGFSwOpkmYyfIv8", "http://127.0.0.1:8/?token=[secret]"),
    ],
)
def test_what_follows_a_word_for_a_secret_is_one_if_it_looks_random(text: str, shown: str) -> None:
    assert Redactor({}).text(text) == shown


@each_row(
    "text",
    [
        "password = getpass.getpass()",
        "token = request.headers.authorization_token",
        "secret_key=settings.SECRET_KEY",
        "the password: hunter",
        "sk-learn-is-a-library-of-many-words",
        "task-force-and-disk-usage-of-some-kind",
        "max_tokens=100000000000",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "-----BEGIN PRIVATE KEY----- is how it begins",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "eyJhbGciOiJIUzI1NiJ9 alone",
        "npm_config_cache=/root/.npm and hf_transfer",
        "Bearer of bad news, and authorization: none",
        "https://user@example.org/x",
        "postgres://postgres:postgres@localhost:5432/app",
        "see http://127.0.0.1:8080/a:b@c and SUAVE, SAAB, SKETCH",
        "bp_config and SG.md and dp.pt.x and SUA",
    ],
)
def test_ordinary_text_is_left_alone_and_is_the_very_same(text: str) -> None:
    assert Redactor(ENV).text(text) is text


def test_a_json_value_is_redacted_in_every_text_of_it() -> None:
    redactor = Redactor(ENV)
    value = {"a": [1, None, True, {"b": f"x {KEY}"}], KEY: 2.5, "c": (f"{VALUE}",)}
    shown = redactor.value(value)
    assert KEY not in json.dumps(shown)
    assert shown["a"][:3] == [1, None, True]
    assert shown["[secret ANTHROPIC_API_KEY]"] == 2.5
    assert shown["c"] == ["[secret MY_TOKEN]"]


_PIECES = st.lists(
    st.sampled_from([VALUE, KEY, "secret", "[secret X]", *TOKENS, "password=", "\n", "token: "])
    | st.text(max_size=20),
    max_size=8,
)


@settings(max_examples=50, deadline=None)
@given(_PIECES)
def test_redacting_twice_is_redacting_once(pieces: list[str]) -> None:
    redactor = Redactor({**ENV, "A_SECRET": "secret", "B_TOKEN": "A_SECRET"})
    once = redactor.text("".join(pieces))
    assert redactor.text(once) == once


def test_the_creds_file_of_a_nats_user_holds_nothing_afterwards() -> None:
    seed = "SUAIBDPBAUTWCWBKIO6XHQNINK5FWJW4OHLXC3HQ2KFE4PEJUA44CNHTC4"
    jwt = "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJqdGkiOiJBQkNEIn0.c2lnbmF0dXJl"
    creds = (
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
    shown = Redactor({}).text(creds)
    assert seed not in shown and jwt not in shown
    assert shown.count("[secret]") == 2


def test_the_mark_of_a_launch_is_a_secret() -> None:
    nonce = "1f2e3d4c-0a1b2c3d4e5f6a7b8c9d0e1f"
    assert nonce not in Redactor({"BULLPEN_NONCE": nonce}).text(f"it is {nonce}.")


@each_row(
    "secret",
    [
        VALUE,
        KEY,
        *TOKENS,
        "password=hG7x2Kp9Qw4z",
        "Authorization: Bearer abcdefgh1234",
        "postgres://user:Sup3rS3cretPw@db/x",
    ],
)
def test_a_secret_that_comes_in_two_pieces_is_found(secret: str) -> None:
    redactor = Redactor(ENV)
    text = f"line one\nand {secret} so on\n"
    for cut in range(len(text) + 1):
        pieces = redactor.stream()
        assert pieces.feed(text[:cut]) + pieces.feed(text[cut:]) + pieces.rest() == redactor.text(
            text
        ), cut


def test_a_secret_that_comes_letter_by_letter_is_found() -> None:
    redactor = Redactor(ENV)
    text = f"a {KEY} b {VALUE} c ghp_{'aB3' * 12} {PEM} d"
    pieces = redactor.stream()
    assert "".join(map(pieces.feed, text)) + pieces.rest() == redactor.text(text)


def test_what_begins_no_secret_is_not_held_back() -> None:
    pieces = Redactor(ENV).stream()
    for text in ("Continue? [y/N] ", "tests 12/40", "100%\r", "done", "é…"):
        assert pieces.feed(text) == text


def a_megabyte() -> str:
    source = Path(traceback.__file__).read_text("utf-8")
    return (source * (1_000_000 // len(source) + 1))[:1_000_000]


def test_a_megabyte_without_a_secret_stays_the_same_text() -> None:
    text = a_megabyte()
    assert Redactor(ENV).text(text) is text


HARD = ("sk-", "eyJ", "password= ", "-----BEGIN PRIVATE KEY-----", "a-", "://a:", "SUAA", "a://")


@pytest.mark.parametrize("hard", HARD)
def test_a_long_text_of_beginnings_is_the_same_in_pieces(hard: str) -> None:
    text = hard * (300_000 // len(hard))
    redactor = Redactor(ENV)
    pieces = redactor.stream()
    fed = [pieces.feed(text[at : at + 65536]) for at in range(0, len(text), 65536)]
    assert "".join(fed) + pieces.rest() == redactor.text(text)


def test_a_traceback_on_a_redacted_file_shows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", RedactedFile(file, Redactor(ENV)))
    try:
        raise ValueError(f"the key {KEY} is refused")
    except ValueError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    print(KEY[:40], end="", file=sys.stderr)
    print(KEY[40:], file=sys.stderr)
    sys.stderr.flush()
    assert "ValueError: the key [secret ANTHROPIC_API_KEY] is refused" in file.getvalue()
    assert file.getvalue().endswith("[secret ANTHROPIC_API_KEY]\n")
    assert KEY[:20] not in file.getvalue()
