"""Write the JSON Schema of team files, from the tables and their descriptions in `team-file.md`.

It is written twice: beside the page, and into the package, so that both a clone and an installed
program have it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from bullpen.runs.teamfile.schema import SHIPPED, schema

PAGE = Path(__file__).with_name("team-file.md")
TABLES = {
    "[team]": "TeamTable",
    "[budget]": "BudgetTable",
    "[workspace]": "WorkspaceTable",
    "[merge]": "MergeTable",
    "[shape]": "ShapeTable",
    "[forge]": "ForgeTable",
    "[guarded]": "GuardedTable",
    "[unattended]": "UnattendedTable",
    "[retention]": "RetentionTable",
    "[[notify]]": "NotifyTable",
    "[mcp_servers]": "McpServerTable",
    "[web]": "WebTable",
    "[after_edit]": "File",
    '[models."NAME"]': "ModelTable",
    "[[member]]": "MemberTable",
    "[member.rules]": "RulesTable",
    "[[task]]": "TaskTable",
    "checks": "CheckTable",
    "[[backlog]]": "BacklogTable",
}


def text() -> str:
    """The text of the schema."""
    words: dict[tuple[str, str], str] = {}
    parts = re.split(r"^## `([^`]+)`\n", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for heading, body in zip(parts[1::2], parts[2::2], strict=True):
        name = TABLES[heading]
        about = body.strip().split("\n\n")[0].replace("\n", " ")
        if not about.startswith("|"):
            words["File", heading.strip("[]").partition(".")[0]] = about
        for key, said in re.findall(r"^\| `([^`]+)` \| (.*) \|$", body, re.MULTILINE):
            words[name, key] = said
    return json.dumps(schema(words), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for path in (SHIPPED, PAGE.with_name(SHIPPED.name)):
        path.write_text(text(), encoding="utf-8")
