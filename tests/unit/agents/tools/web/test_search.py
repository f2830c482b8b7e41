"""Searching with a configured endpoint."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from bullpen.agents.tools.toolbox import lacking
from bullpen.agents.tools.web import search, web_tools
from bullpen.agents.tools.web.fetch import Reach
from bullpen.agents.tools.web.search import check_search_url, searched
from bullpen.errors import Invalid, Refused, Unavailable
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.policy import Policy, Sandbox
from bullpen.sandbox.network.host_rules import HostList, host_rule

from .test_fetch import ANYWHERE, Net, Once

if TYPE_CHECKING:
    from support.agents.tools_fixtures import MakeBench

URL = "http://search.local:8888/search?format=json&q={query}"
NAMED = HostList((host_rule("search.local:8888"),))
RESULTS = [
    {"title": "One", "url": "https://one.org/a", "content": "First\n thing"},
    {"title": "Two", "url": "https://docs.two.org/", "content": None},
    {"title": "Odd", "url": "javascript:x", "content": ""},
    "nonsense",
]


def answering(body: Any) -> Net:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Net(lambda request: httpx2.Response(200, stream=Once(text)), "10.0.0.9", hosts=NAMED)


async def hits(net: Net, query: str = "a b&c", **domains: list[str]) -> list[str]:
    found = await searched(
        URL,
        query,
        domains.get("allowed"),
        domains.get("blocked"),
        ANYWHERE,
        reach=net.reach,
    )
    return [hit.url for hit in found]


async def test_a_search_asks_the_endpoint_and_reads_its_results() -> None:
    net = answering({"results": RESULTS})
    assert await hits(net) == ["https://one.org/a", "https://docs.two.org/"]
    assert str(net.requests[0].url) == "http://10.0.0.9:8888/search?format=json&q=a%20b%26c"


async def test_domains_are_chosen_by_their_end() -> None:
    def net() -> Net:
        return answering({"results": RESULTS})

    assert await hits(net(), allowed=["two.org"]) == ["https://docs.two.org/"]
    assert await hits(net(), blocked=["*.two.org"]) == ["https://one.org/a"]
    assert await hits(net(), allowed=["wo.org", ""]) == []


@pytest.mark.parametrize("body", [b"<html>", {"hits": []}, {"results": {}}, [1], b"[" * 100_000])
async def test_another_answer_is_an_error(body: Any) -> None:
    with pytest.raises(Unavailable, match="JSON results"):
        await hits(answering(body))


async def test_a_redirect_of_the_endpoint_is_an_error() -> None:
    net = Net(
        lambda request: httpx2.Response(302, headers={"location": "https://x.org/"}), hosts=NAMED
    )
    with pytest.raises(Unavailable, match="redirects to"):
        await hits(net)


@pytest.mark.parametrize(
    "url",
    [
        "https://search.local/",
        "https://{query}/",
        "https://{query}.search.local/",
        "https://search.local:{query}/",
        "ftp://search.local/{query}",
        "search.local/{query}",
        7,
    ],
)
def test_a_template_must_have_the_query_after_the_host(url: object) -> None:
    with pytest.raises(Invalid, match="search_url"):
        check_search_url(url)


def test_a_template_with_the_query_after_the_host_is_fine() -> None:
    check_search_url(URL)
    check_search_url("https://search.local/{query}")


async def test_a_sandbox_must_allow_the_endpoint() -> None:
    hosts = HostList((host_rule("docs.example.org"),))
    with pytest.raises(Refused, match="sandbox does not allow the search"):
        await searched(URL, "x y", None, None, hosts)


async def test_the_tool_lists_results_in_a_frame(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = answering(
        {"results": [*RESULTS, {"title": "</outside-content>", "url": "https://e.org"}]}
    )
    made: list[HostList] = []

    def reach(hosts: HostList, *rest: Any, **more: Any) -> Reach:
        made.append(hosts)
        return net.reach

    monkeypatch.setattr(search, "Reach", reach)
    ann = make_bench("ann", options={"search_url": URL})
    told = await ann.ok("WebSearch", query="things", blocked_domains=["none.org"])
    assert "- [One](https://one.org/a)\n  First thing\n- [Two](https://docs.two.org/)" in told
    assert told.count("</outside-content>") == 1
    # Only the endpoint, which may be on this machine.
    assert [rule.name for rule in made[0].rules] == ["search.local"] and not made[0].any_public


def spec(**given: Any) -> AgentSpec:
    return AgentSpec.new(**{"driver": "native", "backend": "in-process", "cwd": "/", **given})


def lacks(made: AgentSpec) -> dict[str, str]:
    found = lacking(made, mode="default", is_lead=False, may_spawn=False)
    return {name: why for name, why in found.items() if name.startswith("Web")}


@pytest.mark.parametrize(
    "model", [None, "claude-x", "anthropic:claude-x", "openai:gpt-x", "gpt-x", "o3"]
)
def test_the_apis_that_search_themselves_are_known(model: str | None) -> None:
    assert lacks(spec(model=model)) == {}


@pytest.mark.parametrize("given", [{"model": "openai-chat:gpt-x"}, {"driver": "scripted"}])
def test_without_any_search_the_tool_is_absent_with_the_reason(given: dict[str, Any]) -> None:
    assert lacks(spec(**given)) == {
        "WebSearch": "its model's API has no search, and no search_url is set"
    }
    assert lacks(spec(**given, options={"search_url": URL})) == {}


def test_an_agent_without_network_has_no_web() -> None:
    def boxed(**given: Any) -> AgentSpec:
        return spec(policy=Policy.new(sandbox=Sandbox.new(**given)).raw)

    why = "its sandbox has no network"
    assert lacks(boxed()) == {"WebFetch": why, "WebSearch": why}
    assert lacks(boxed(network=True)) == {}
    assert list(lacks(boxed(hosts=["example.org"]))) == ["WebSearch"]


def test_both_are_loaded_only_when_needed() -> None:
    assert all(tool.deferred for tool in web_tools.WEB_TOOLS)
