"""The intervals of a runner."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """The intervals of a runner, in seconds. Tests set their own."""

    beat_s: float = 4.0
    beat_ttl_s: float = 10.0
    start_s: float = 120.0
    # How long to wait for more reports while teammates are working.
    gather_s: float = 10.0
    # The longest that a turn may take.
    turn_s: float = 3600.0
    # After a failed turn: wait, try again, finally give up.
    retry_s: float = 30.0
    retries_max: int = 3
    # How often the deadline of an agent's plan is checked.
    plan_look_s: float = 10.0
    # How long an agent that asked someone may wait before it is reminded of its task.
    reply_s: float = 120.0
    # How long all must be idle before a lead is told so; ten times as long if there is unread mail.
    rest_s: float = 3.0
    # How often an agent checks that it is still in its team.
    place_look_s: float = 5.0
    # The second reminder of an unfinished task waits this long, the third six times as long.
    remind_s: float = 10.0
    # A task that somebody gave back is handed to the next member after this; doubled each time.
    again_s: float = 15.0
    # How long a task may wait for the member it is meant for before the lead is told.
    kept_s: float = 600.0
    # A new agent waits up to this long for its lead's turn to end, in which others may be spawned.
    form_s: float = 60.0
