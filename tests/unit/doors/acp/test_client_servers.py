"""The MCP servers of a client: what is stored of them, and what is not."""

from __future__ import annotations

import pytest

from bullpen.agents.tools.mcp_servers.definition import definition_of
from bullpen.doors.acp.client_servers import known_servers
from bullpen.doors.acp.updates import ClientServer
from bullpen.errors import Invalid

SERVER = ClientServer("bullpen", "python", ("-m", "relay"), {"KEY": "bpt_0123456789abcdef"})


def test_values_are_in_variables_and_not_in_the_definition() -> None:
    known = known_servers([SERVER], session="acp-1")
    assert "bpt_0123456789abcdef" not in repr(known.definitions)
    assert "relay" not in repr(known.definitions)
    definition = definition_of("client-bullpen", known.definitions["client-bullpen"])
    whole = definition.expanded(known.variables)
    assert whole.command == ("python", "-m", "relay")
    assert whole.env == {"KEY": "bpt_0123456789abcdef"}


def test_a_later_process_has_the_same_definition_for_other_values() -> None:
    later = ClientServer("bullpen", "python", ("-m", "other"), {"KEY": "bpt_fedcba9876543210"})
    one, other = (known_servers([each], session="acp-1") for each in (SERVER, later))
    assert one.definitions == other.definitions
    assert one.variables != other.variables
    assert one.variables.keys() == other.variables.keys()


def test_two_sessions_do_not_share_variables() -> None:
    one, other = (known_servers([SERVER], session=name) for name in ("acp-1", "acp-2"))
    assert not one.variables.keys() & other.variables.keys()


def test_the_client_s_name_is_kept_for_what_it_is_told() -> None:
    assert known_servers([SERVER], session="acp-1").names == {"client-bullpen": "bullpen"}
    spaced = ClientServer("My server!", url="https://example.org/mcp", headers={"A": "b"})
    known = known_servers([spaced], session="acp-1")
    assert known.names == {"My-server": "My server!"}
    definition_of("My-server", known.definitions["My-server"])


def test_names_that_are_too_alike_are_refused() -> None:
    twins = [ClientServer("a b", "x"), ClientServer("a-b", "x")]
    with pytest.raises(Invalid, match="same name"):
        known_servers(twins, session="acp-1")
