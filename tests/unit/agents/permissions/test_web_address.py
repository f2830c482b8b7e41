"""Rules about the web: which URL is which host, and what `WebFetch(domain:NAME)` allows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.contracts.call import Call, Rights
from bullpen.agents.permissions.decide import decide
from bullpen.agents.permissions.rule_language.rule import rule_of
from bullpen.agents.permissions.rule_language.web_address import WebAddress
from bullpen.protocol.policy import Mode
from support.rows import each_row


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return tmp_path


def rights(project: Path, mode: Mode = "default", **lists: Any) -> Rights:
    return Rights(mode, str(project), str(project), **lists)


def effect(project: Path, url: str, *, mode: Mode = "default", **lists: tuple[str, ...]) -> str:
    call = Call("WebFetch", {"url": url, "prompt": "x"}, "read")
    return decide(call, rights(project, mode, **lists)).effect


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("https://example.org", ("https", "example.org", 443, "/")),
        ("HTTP://Example.ORG:8080/a b", None),
        ("HTTP://Example.ORG.:8080/a?b=c#d", ("http", "example.org", 8080, "/a?b=c")),
        ("https://bücher.example/ü", ("https", "xn--bcher-kva.example", 443, "/%C3%BC")),
        ("http://[::1]:80/x", ("http", "::1", 80, "/x")),
        ("http://127.0.0.1/x", ("http", "127.0.0.1", 80, "/x")),
        ("http://example.org/%2e%2e/x", ("http", "example.org", 80, "/%2e%2e/x")),
    ],
)
def test_a_url_is_taken_apart_once(url: str, parts: tuple[str, str, int, str] | None) -> None:
    found = WebAddress.of(url)
    assert found == (None if parts is None else WebAddress(*parts))


@each_row(
    "url",
    [
        "",
        "example.org",
        "//example.org/",
        "ftp://example.org/",
        "file:///etc/passwd",
        "https://",
        "https://user@example.org/",
        "https://user:word@example.org/",
        "https://good.org\\@evil.org/",
        "https://good.org\t.evil.org/",
        "https://exa\nmple.org/",
        "https://*.example.org/",
        "https://example.org:99999/",
        "https://example.org:x/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://1.2.3.0x4/",
        "http://[::1/",
        "http://[fe80::1%25eth0]/",
        "https://example.org/" + "a" * 5_000,
        None,
        7,
    ],
)
def test_what_programs_could_read_differently_is_no_url(url: object) -> None:
    assert WebAddress.of(url) is None


def test_a_domain_is_one_host_and_a_pattern_is_those_below(project: Path) -> None:
    rule = ("WebFetch(domain:example.org)",)
    assert effect(project, "https://example.org/x", allow=rule) == "allow"
    assert effect(project, "http://EXAMPLE.org./x", allow=rule) == "allow"
    for other in (
        "https://www.example.org",
        "https://example.org.evil.net",
        "https://xexample.org",
    ):
        assert effect(project, other, allow=rule) == "ask"
    below = ("WebFetch(domain:*.example.org)",)
    assert effect(project, "https://a.b.example.org/", allow=below) == "allow"
    assert effect(project, "https://example.org/", allow=below) == "ask"
    assert effect(project, "https://evil.net/?example.org", allow=below) == "ask"


def test_other_ports_need_a_rule_of_their_own(project: Path) -> None:
    url = "https://example.org:8443/"
    assert effect(project, url, allow=("WebFetch(domain:example.org)",)) == "ask"
    assert effect(project, url, allow=("WebFetch(domain:example.org:8443)",)) == "allow"


def test_a_denial_is_about_the_hosts_below_too(project: Path) -> None:
    rule = ("WebFetch(domain:example.org)",)
    for url in ("https://example.org", "https://a.example.org:81/", "not a url"):
        assert effect(project, url, mode="bypassPermissions", deny=rule) == "deny"
        assert effect(project, url, mode="bypassPermissions", ask=rule) == "ask"
    assert effect(project, "https://example.com", mode="bypassPermissions", deny=rule) == "allow"
    ported = ("WebFetch(domain:example.org:81)",)
    assert effect(project, "https://example.org", mode="bypassPermissions", deny=ported) == "allow"


@pytest.mark.parametrize(
    "text", ["WebFetch(example.org)", "WebFetch(domain:)", "WebFetch(domain:a b)"]
)
def test_other_specifiers_are_refused(text: str) -> None:
    assert rule_of(text).broken == "it is not domain:NAME"


def test_always_allows_the_host_and_no_more(project: Path) -> None:
    call = Call("WebFetch", {"url": "https://docs.example.org/a/b?c"}, "read")
    (offered,) = decide(call, rights(project, "default")).suggestions
    assert offered["rules"] == [{"toolName": "WebFetch", "ruleContent": "domain:docs.example.org"}]
    odd = Call("WebFetch", {"url": "https://docs.example.org:444/"}, "read")
    assert decide(odd, rights(project, "default")).suggestions == ()
    search = Call("WebSearch", {"query": "x"}, "read")
    (offered,) = decide(search, rights(project, "default")).suggestions
    assert offered["rules"] == [{"toolName": "WebSearch"}]


def test_the_reason_names_the_web(project: Path) -> None:
    call = Call("WebFetch", {"url": "https://example.org/"}, "read")
    assert (
        decide(call, rights(project, "default")).why
        == "the mode default asks before reaching the web"
    )
    assert str(call) == "WebFetch https://example.org/"


def test_a_role_may_have_only_some_hosts(project: Path) -> None:
    tools = ("WebFetch(domain:example.org)",)
    assert effect(project, "https://example.org", mode="bypassPermissions", tools=tools) == "allow"
    assert effect(project, "https://evil.net", mode="bypassPermissions", tools=tools) == "deny"
