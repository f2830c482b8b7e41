"""How many rows the table has, by door.

PYTHONPATH=tests python -m support.identity
"""

from __future__ import annotations

from collections import Counter

from . import cli_door, commands, expected, nats_door, tools, web_door
from .operations import at_host, in_python

rows = [
    *(row for what in expected.OPERATIONS for row in in_python(what)),
    *(row for what in expected.OPERATIONS for row in at_host(what)),
    *(row for what in expected.OPERATIONS for row in nats_door.rows(what)),
    *(
        row
        for what in sorted({*commands.PEOPLE_ONLY, *commands.READS, *commands.CHANGES})
        for row in cli_door.rows(what)
    ),
    *tools.rows("tool socket"),
    *tools.rows("MCP stdio"),
    *tools.rows("MCP HTTP"),
    *web_door.rows(),
]
for row in rows:
    print(f"{row.door:12} {row.what:42} {row.identity.value:26} {row.way:13} {row.expected}")
for door, number in Counter(row.door for row in rows).items():
    print(f"{door}: {number} rows")
print(f"all: {len(rows)} rows")
