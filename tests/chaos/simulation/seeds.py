"""Seeds to play each time: the kinds of faults to draw from, and what they find.

Some broke a promise of the program; the others find a defect that it had and that is planted again.
"""

from __future__ import annotations

from .faults import KINDS, Kind

FOUND: list[tuple[int, tuple[Kind, ...], str]] = [
    (1, KINDS, "an agent was shown as working for ever: the end of its turn was not tried again"),
    (1, ("refuse", "away"), "a report was lost because the store refused at the end of a turn"),
    (149, KINDS, "the report of a killed process was lost though its transcript had it"),
    (1, ("refuse",), "a run ended with an error because the store refused once"),
    (35, ("full_disk",), "usage was not booked because the transcript could not be written"),
    (525, KINDS, "an agent stayed paused: it obeyed the pause, and not the resume behind it"),
    (2019, KINDS, "an agent stayed paused: it obeyed the resume before the pause"),
    (18246, KINDS, "an order stayed unread: it was obeyed, and marking it was not tried again"),
    (1160, KINDS, "an agent at work was killed because its starter could not read the store"),
    (2373, KINDS, "an agent was never started again because its starter had been stopped"),
    (8, ("jump", "suspend"), "a living agent lost its task because the clock was set forward"),
    (9415, KINDS, "a lead that was being restarted stayed away because the store was away"),
    (64, ("jump",), "a run did not end in time because the clock was set back"),
]
