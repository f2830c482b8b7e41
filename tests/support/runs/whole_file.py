"""A team file in which every table and nearly every way to write TOML is used."""

from __future__ import annotations

import re

WHOLE = '''\
#:schema ./team-file.schema.json
[team]
name = "night"
goal = """
Do it = all.
[[member]]
name = "nobody"
"""

[budget]
turns = 9
usd = 2.5
hours = 8

[workspace]
kind = "worktree"
root = "../trees"
setup = \'\'\'
make "all"
dirty = "no"
\'\'\'
dirty = "leave"

[merge]
target = "main"
batch = 2
gate = [
  "make test",  # all of them
  {kind = "command", run = "make lint", timeout_s = 60},
]

[guarded]
paths = ["deploy"]
allow = [".github/workflows"]

[unattended]
stall_minutes = 5
quiet = ["22:00-06:30"]

[[notify]]
run = "cat"
on = ["merged", "ended"]

[[notify]]
url = "ntfy://topic"
quiet = "22:00-07:00"

[[notify]]
url_env = "TEAM_CHAT"
answer_minutes = 30

[[notify]]
push = true

[[member]]
name = "team-lead"
model = "anthropic:some"

[[member]]
name = "ann"
skills = [
  "parser",
  "docs",
]
mode = "acceptEdits"
count = 2
[member.rules]
allow = ["Bash(git:*)"]

[[member]]
name = "bob"
workspace = "shared"
rules.deny = ["Bash(rm:*)"]
rules.directories = ["../other"]

[[task]]
id = "one"
subject = "First"
owner = "ann-1"
needs = ["docs"]
budget = {turns = 3, usd = 1.0}
checks = [{kind = "file", path = "a.md"}, {kind = "command", run = "true"}]

[[task]]
id = "two"
subject = "Second"
blocked_by = ["one"]
[task.budget]
tokens = 1000
[[task.checks]]
kind = "report"

[[backlog]]
markdown = "BACKLOG.md"
heading = "Now"
every_s = 60
effort = "small"
needs = ["parser"]
'''


def pairs(text: str) -> list[int]:
    """The numbers, from 0, of the lines that set a key."""
    inside = False
    numbers = []
    for number, line in enumerate(text.split("\n")):
        if re.match(r"[a-z_.]+ = ", line) and not inside:
            numbers.append(number)
        quotes = len(re.findall(r"\"\"\"|'''", line))
        inside ^= quotes == 1
    return numbers
