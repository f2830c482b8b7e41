"""The names and kinds of the tools, which settings are checked against."""

from __future__ import annotations

from bullpen.agents.permissions.rule_language.tool_names import TOOL_KINDS
from bullpen.agents.tools.toolbox import TOOLS


def test_every_tool_is_named_with_its_kind_in_the_order_in_which_models_see_them() -> None:
    assert [(tool.name, tool.kind) for tool in TOOLS] == list(TOOL_KINDS.items())
