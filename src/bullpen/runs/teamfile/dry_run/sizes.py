"""How many members a template can have, what depends on that, and its default budget."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """How many members there can be besides a lead, and what they are called together."""

    least: int
    most: int
    usual: int
    who: str


SIZES = {
    "review": Size(1, 3, 3, "readers"),
    "backlog": Size(1, 12, 2, "workers"),
    "specialists": Size(1, 4, 4, "specialists"),
    "debug": Size(2, 3, 3, "rivals"),
}
TURNS = {"review": 60, "backlog": 300, "specialists": 400, "debug": 80}
DOLLARS = {"review": 5.0, "backlog": 20.0, "specialists": 25.0, "debug": 5.0}
"""The default budgets: turns, and dollars where prices are known."""

# In the order in which members are added.
_NAMES = {"review": ("correctness", "security", "tests"), "debug": ("inputs", "state", "timing")}
_SKILLS = (("backend", "data"), ("tests",), ("docs",), ("frontend",))
_WORDS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten",
          "Eleven", "Twelve")  # fmt: skip
_WORKER = """\
[[agents.{name}.turns]]
when = "task"
repeat = true
steps = [
  {{ sleep = {pause} }},
  {{ tool = "Write", input = {{ file_path = "notes/task-{{task}}.md", content = "Task {{task}}, {{subject}}: done by {{agent}}, which is a script.\\n" }} }},
  {{ usage = {{ input_tokens = 1200, output_tokens = 150 }} }},
  {{ tool = "TaskUpdate", input = {{ taskId = "{{task}}", status = "completed" }} }},
]
"""  # noqa: E501


def sized(template: str, members: int | None) -> tuple[dict[str, str], dict[str, bool]]:
    """Return the words and conditions of a template that depend on the number of members."""
    count = SIZES[template].usual if members is None else members
    words = {
        "members": str(count),
        "number": _WORDS[count].lower(),
        "capital": _WORDS[count],
        "readers": _listed(_NAMES.get(template, ())[:count]),
        # The first member also gets the skills of those who are left out.
        "skills": _listed([*_SKILLS[0], *(skill for each in _SKILLS[count:] for skill in each)]),
        "workers": "\n".join(_worker(number, count) for number in range(1, count + 1)),
    }
    return words, {"two": count >= 2, "three": count >= 3, "four": count >= 4}


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _worker(number: int, count: int) -> str:
    name = "worker" if count == 1 else f"worker-{number}"
    return _WORKER.format(name=name, pause=round(0.2 + 0.3 * number, 1))
