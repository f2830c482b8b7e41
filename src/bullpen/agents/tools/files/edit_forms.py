"""The tools that edit files, and the form of them that a model was trained on."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.tool import Tool
from bullpen.agents.tools.files.edit_tools import EDIT, MULTI_EDIT
from bullpen.agents.tools.files.notebooks.notebook_tool import NOTEBOOK_EDIT
from bullpen.agents.tools.files.patches.patch_tool import APPLY_PATCH

EDIT_TOOLS: tuple[Tool[Desk], ...] = (EDIT, MULTI_EDIT, APPLY_PATCH, NOTEBOOK_EDIT)

_PATCHING = re.compile(r"(?:^|[/:.])(?:gpt-[4-9]|o[1-9]\b|codex)|codex", re.IGNORECASE)
_CLAUDE = re.compile(r"claude", re.IGNORECASE)


def for_model(tools: Sequence[Tool[Desk]], model: str) -> list[Tool[Desk]]:
    """The tools to show this model: of those that edit, the ones that it was trained on.

    It may call the others, too.
    """
    if _PATCHING.search(model) and APPLY_PATCH in tools:
        spare: set[str] = {EDIT.name, MULTI_EDIT.name}
    elif _CLAUDE.search(model):
        spare = {APPLY_PATCH.name}
    else:
        spare = {APPLY_PATCH.name, MULTI_EDIT.name}
    return [tool for tool in tools if tool.name not in spare]
