"""`bullpen schema`: the JSON Schemas of team files and of what commands print for programs."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.option import argument, flag
from bullpen.doors.cli.output.json_schemas import printed, schema_of
from bullpen.doors.cli.session import Session
from bullpen.runs.teamfile.schema import shipped

_TEAM_FILE = "team-file"


@examples(
    "bullpen schema > team-file.schema.json",
    "bullpen schema --list",
    "bullpen schema agents",
    "bullpen schema task list",
)
def schema(
    session: Session,
    words: Annotated[
        list[str] | None,
        argument("A schema or a command [default: the schema of team files]", "NAME"),
    ] = None,
    *,
    listing: Annotated[bool, flag("List the schemas of JSON output", "--list")] = False,
) -> None:
    """Print the JSON Schema of team files or of JSON output.

    Editors use the schema of team files to check and complete them. With NAME, prints the schema of
    what commands print with --json and --jsonl: each object names it in `schema`.
    """
    if listing and words:
        raise typer.BadParameter("name a schema or pass --list, not both.")
    if listing:
        rows = [(each.name, each.description, ", ".join(each.commands)) for each in printed()]
        session.page.listing(
            "schemas/1",
            {"schemas": printed()},
            ("schema", "what", "printed by"),
            rows,
            nothing="No schemas.",
        )
        return
    name = " ".join(words or [_TEAM_FILE])
    session.page.document(json.loads(shipped()) if name == _TEAM_FILE else schema_of(name))
