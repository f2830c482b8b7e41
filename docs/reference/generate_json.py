"""Write the table of `json.md`, and the copy of the schemas that the site publishes.

The schemas themselves are written by hand, in the package.
"""

from __future__ import annotations

from pathlib import Path

from bullpen.doors.cli.output.json_schemas import SHIPPED, printed

PAGE = Path(__file__).with_name("json.md")
COPY = PAGE.with_name(SHIPPED.name)

_BEGIN = "<!-- python docs/reference/generate_json.py writes this table. -->\n"
_END = "<!-- end of the table -->\n"


def page() -> str:
    """The page with a row for each schema."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    rows = [
        f"| `{each.name}/{each.version}` | {_commands(each.commands)} | {each.description} |\n"
        for each in printed()
    ]
    head = "\n| Schema | Printed by | What it is |\n|---|---|---|\n"
    return "".join([before, _BEGIN, head, *rows, "\n", _END, rest.partition(_END)[2]])


def _commands(names: tuple[str, ...]) -> str:
    return "every command" if names == ("*",) else ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    COPY.write_bytes(SHIPPED.read_bytes())
