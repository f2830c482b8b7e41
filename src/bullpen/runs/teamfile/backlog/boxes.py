"""Finds the checkboxes that the tasks of a team came from."""

from __future__ import annotations

import os
from functools import partial

from bullpen.protocol.task import Task
from bullpen.protocol.team import MergeSettings
from bullpen.runs.teamfile.backlog.backlog import MARKDOWN
from bullpen.runs.teamfile.backlog.markdown_list import ticked
from bullpen.team.team import Team
from bullpen.workspace.merge_queue.tick import Box, Boxes, no_boxes


async def boxes_of(team: Team, settings: MergeSettings) -> Boxes:
    """Return the boxes of a team's tasks, as far as their files are in its repository."""
    origin = (await team.agents.config()).facts.origin
    if origin is None:
        return no_boxes
    return partial(box_of, os.path.dirname(origin.file), settings.repository)


def box_of(folder: str, repository: str, task: Task) -> Box | None:
    """Return the box of a task from a Markdown file, whose path is relative to `folder`."""
    source = task.facts.source or ""
    if not source.startswith(MARKDOWN):
        return None
    name, _, key = source.removeprefix(MARKDOWN).partition("#")
    top = os.path.realpath(repository)
    path = os.path.relpath(os.path.realpath(os.path.join(folder, name)), top)
    if path.split(os.sep)[0] == os.pardir:
        return None
    return Box(path, partial(ticked, key=key))
