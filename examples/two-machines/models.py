"""A model that is played, for Goose in this example: run by `play.py` on every machine.

It prints where it listens, and answers until it is ended. It does with each task what `ann` does in
script.toml. Nothing is remembered here: what it answers follows from what it is asked.
"""

from __future__ import annotations

import re
import threading

from bullpen.testing.models import Call, MockModels, ModelRequest, Reply

WORK_S = 3.0

_CLAIMED = re.compile(r"You have claimed task: #(\d+)([^\n]*)")


def answer(request: ModelRequest) -> Reply:
    """The next step with the task that the teammate has; a few words if it has none."""
    if not request.tools:
        return Reply("A title.")
    told: list[str] = []
    called: list[str] = []
    for turn in request.turns:
        if turn.role == "user":
            told.append(turn.text)
        elif turn.calls:
            called += [call.name for call in turn.calls]
        else:
            # That was the end of the turn before.
            told, called = [], []
    claims = _CLAIMED.findall("\n".join(told))
    if not claims:
        return Reply("Noted.")
    number, subject = claims[-1]
    is_last = "Make the release" in subject
    if not is_last and not any(name.endswith("SendMessage") for name in called):
        message = f"Task {number} is done, says gus."
        call = _call(request, "SendMessage", to="ann", summary=f"Task {number}", message=message)
        return Reply(calls=[call], delay_s=WORK_S)
    if not any(name.endswith("TaskUpdate") for name in called):
        call = _call(request, "TaskUpdate", taskId=number, status="completed")
        return Reply(calls=[call], delay_s=WORK_S if is_last else 0.0)
    return Reply("Done: the release is made." if is_last else "Done.")


def _call(request: ModelRequest, tool: str, **given: str) -> Call:
    """A call of a tool of the team, by the name under which the program offers it."""
    name = next((each for each in request.tools if each.endswith(tool)), tool)
    return Call(name, given)


if __name__ == "__main__":
    with MockModels(answer) as models:
        print(models.url, flush=True)
        threading.Event().wait()
