"""Which hosts a sandbox may reach."""

from __future__ import annotations

import pytest

from bullpen.errors import Invalid
from bullpen.protocol.policy import Sandbox
from bullpen.sandbox.network.host_rules import (
    HostList,
    HostRule,
    covers,
    host_rule,
    hosts_in,
    is_public,
)
from support.rows import each_row


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("api.example.org", HostRule("api.example.org")),
        ("API.Example.org.:8443", HostRule("api.example.org", 8443)),
        ("*.example.org", HostRule("*.example.org")),
        ("127.0.0.1:4222", HostRule("127.0.0.1", 4222)),
        ("[::1]:80", HostRule("::1", 80)),
        ("2001:DB8::0:1", HostRule("2001:db8::1")),
        ("localhost:1", HostRule("localhost", 1)),
    ],
)
def test_a_rule_names_a_host_and_perhaps_a_port(text: str, rule: HostRule) -> None:
    assert host_rule(text) == rule


@each_row(
    "text",
    ["", "*", "*.", "a b", "http://a", "a:0", "a:65536", "a:", "a:x", "[::1", "[a]:1", "a/b", "@a"],
)
def test_a_text_that_is_not_a_host_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(Invalid, match="is not a host") as error:
        host_rule(text)
    assert "example.org" in error.value.remedy


def test_a_rule_without_a_port_opens_the_ports_of_the_web() -> None:
    hosts = HostList.of(Sandbox.new(hosts=["a.org", "*.b.org", "c.org:22"]))
    assert [port for port in (22, 80, 443, 8080) if hosts.allows("a.org", port)] == [80, 443]
    assert hosts.allows("x.b.org", 443)
    assert hosts.allows("x.y.b.org", 443)
    assert [port for port in (22, 443) if hosts.allows("c.org", port)] == [22]
    for other in ("b.org", "xb.org", "a.org.evil.org", "evila.org", "b.org.evil"):
        assert not hosts.allows(other, 443)


def test_a_network_is_every_host_but_names_none_exactly() -> None:
    hosts = HostList.of(Sandbox.new(network=True))
    assert hosts.allows("anything.org", 1)
    assert not hosts.names_exactly("127.0.0.1", 4222)
    assert not HostList.of(Sandbox.new())


def test_only_a_host_with_its_port_means_a_private_address() -> None:
    hosts = HostList.of(Sandbox.new(hosts=["intern", "db:5432", "*.corp:1"]))
    assert hosts.names_exactly("db", 5432)
    assert not hosts.names_exactly("intern", 443)
    assert not hosts.names_exactly("x.corp", 1)


@each_row(
    "address",
    [
        *("127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1"),
        *("169.254.169.254", "100.100.100.200", "168.63.129.16", "224.0.0.1", "255.255.255.255"),
        *("::1", "::", "fe80::1%eth0", "fd00:ec2::254", "::ffff:127.0.0.1", "::ffff:10.0.0.1"),
        *("64:ff9b::7f00:1", "2002:7f00:1::", "ff02::1", "192.0.2.1", "198.18.0.1"),
    ],
)
def test_addresses_of_this_machine_and_private_networks_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "140.82.112.3", "2606:4700:4700::1111"])
def test_addresses_on_the_internet_are_public(address: str) -> None:
    assert is_public(address)


def test_the_hosts_of_urls_are_named_with_their_ports() -> None:
    urls = ["http://127.0.0.1:9000/v1", "https://a.org/x", "http://[::1]:7", "b.org", "", "::"]
    assert hosts_in(urls) == ["127.0.0.1:9000", "a.org:443", "[::1]:7", "b.org:443"]


@each_row(
    ("host", "has", "covered"),
    [
        ("a.org", {"hosts": ["a.org"]}, True),
        ("a.org", {"hosts": ["*.org"]}, True),
        ("x.a.org", {"hosts": ["*.a.org"]}, True),
        ("*.x.a.org", {"hosts": ["*.a.org"]}, True),
        ("*.a.org", {"hosts": ["x.a.org"]}, False),
        ("a.org", {"hosts": ["a.org:443"]}, False),
        ("a.org", {"network": True}, True),
        ("*.org", {"network": True}, True),
        # It could be a private address, which a network does not open.
        ("a.org:443", {"network": True}, False),
        ("a.org:443", {"hosts": ["a.org"]}, False),
        ("a.org:443", {"hosts": ["a.org:443"]}, True),
        ("b.org", {"hosts": ["a.org"]}, False),
        ("b.org", {}, False),
    ],
)
def test_a_child_gets_no_host_that_its_parent_lacks(
    host: str, has: dict[str, object], covered: bool
) -> None:
    assert covers(host, Sandbox.new(**has)) is covered


def test_a_stored_sandbox_without_hosts_still_reads() -> None:
    old = Sandbox.parse({"network": True, "read": ["/a"]})
    assert old.hosts == []
    assert old.raw == {"network": True, "read": ["/a"]}
