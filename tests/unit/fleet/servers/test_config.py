"""Configurations: a real server reads them, and they say why they are so."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.errors import Invalid
from bullpen.fleet.servers.config import Ports, ServerNode, loopback_config
from bullpen.fleet.servers.production import production_configs
from bullpen.fleet.servers.server_key import ServerKey

HOSTS = ("a.example.com", "b.example.com", "c.example.com")


def test_acknowledged_means_on_the_disk_everywhere(tmp_path: Path) -> None:
    node = ServerNode("n1", Ports(1, 2, 3), tmp_path)
    for text in (*production_configs(HOSTS).values(), loopback_config(node, [node])):
        assert "sync_interval: always" in text


def test_what_is_open_to_everybody_is_said() -> None:
    (text,) = production_configs(HOSTS[:1]).values()
    assert "NO TLS" in text
    assert "NO AUTHORIZATION" in text
    (text,) = production_configs(HOSTS[:1], auth="keys", tls="/etc/nats").values()
    assert "NO " not in text


def test_the_others_are_named_to_each() -> None:
    for text in production_configs(HOSTS).values():
        assert all(f'"nats://{host}:6222"' in text for host in HOSTS)


@pytest.mark.parametrize(
    "hosts", [HOSTS[:2], (), ("a", "a", "b"), ("a b",), ('a"',), ("a\nlisten: 1",), ("-a",)]
)
def test_machines_that_cannot_be_are_refused(hosts: tuple[str, ...]) -> None:
    with pytest.raises(Invalid):
        production_configs(hosts)


def test_with_a_key_clients_and_servers_must_show_it(tmp_path: Path) -> None:
    nodes = [ServerNode(f"n{at}", Ports(at, at + 10, at + 20), tmp_path) for at in (1, 2, 3)]
    key = ServerKey("UPUBLIC", "a-password")
    text = loopback_config(nodes[0], nodes, key=key)
    assert "authorization { users: [ { nkey: UPUBLIC } ] }" in text
    assert 'authorization { user: "route", password: "a-password" }' in text
    assert text.count("route:a-password@127.0.0.1:") == 3
    assert "a-password" not in loopback_config(nodes[0], nodes[:1], key=key)
    assert "a-password" not in repr(key)
    assert "authorization" not in loopback_config(nodes[0], nodes)
