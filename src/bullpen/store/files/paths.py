"""Paths of a team's files. Every name is checked before it becomes part of a path."""

from __future__ import annotations

import os

from bullpen.protocol import names
from bullpen.protocol.record.note import check_note_name


class TeamPaths:
    """The paths of one team in one home."""

    def __init__(self, home: str, team: str) -> None:
        names.check_component(team, kind="team name")
        self.name = team
        self.teams = os.path.join(home, "teams")
        self.root = os.path.join(self.teams, team)
        self.config = os.path.join(self.root, "config.json")
        self.inboxes = os.path.join(self.root, "inboxes")
        self.notes = os.path.join(self.root, "notes")
        self.task_lists = os.path.join(home, "tasks")
        self.tasks = os.path.join(self.task_lists, team)
        self.tasks_lock_file = os.path.join(self.tasks, ".lock")
        self.high_water = os.path.join(self.tasks, ".highwatermark")
        # Everything below is Bullpen's; other programs never read it.
        self.own = os.path.join(self.root, ".bullpen")
        self.head = os.path.join(self.own, "head")
        self.events = os.path.join(self.own, "events.jsonl")
        self.parts = os.path.join(self.own, "log")
        self.digests = os.path.join(self.own, "ledger.json")
        self.deleting = os.path.join(self.own, "deleting")
        self.requests = os.path.join(self.own, "requests")
        self.note_records = os.path.join(self.own, "notes")
        self.presence = os.path.join(self.own, "presence")
        self.archive = os.path.join(self.own, "archive")
        self.mail = os.path.join(self.own, "mail")
        self.spare_locks = os.path.join(self.own, "locks")
        self.quarantine = os.path.join(self.own, "quarantine")

    def task(self, task_id: str) -> str:
        """Return the file of a task."""
        return os.path.join(self.tasks, f"{names.check_task_id(task_id)}.json")

    def note(self, name: str) -> str:
        """Return the file of a note, which other programs may edit."""
        return os.path.join(self.notes, f"{check_note_name(name)}.md")

    def note_record(self, name: str) -> str:
        """Return the record of a note's last version."""
        return os.path.join(self.note_records, f"{check_note_name(name)}.json")

    def inbox(self, agent: str) -> str:
        """Return the inbox, which other programs read."""
        return os.path.join(self.inboxes, f"{names.inbox_stem(agent)}.json")

    def archived(self, agent: str) -> str:
        """Return the archive of messages seen long ago, one per line."""
        return os.path.join(self.archive, f"{names.inbox_stem(agent)}.jsonl")

    def shadow(self, agent: str) -> str:
        """Return the inbox's second inode, one message behind (see `mail`)."""
        return os.path.join(self.mail, f"{names.inbox_stem(agent)}.shadow")

    def shadow_state(self, agent: str) -> str:
        """Return the record of the inbox when the shadow was last swapped with it."""
        return os.path.join(self.mail, f"{names.inbox_stem(agent)}.state")

    def injected(self, agent: str) -> str:
        """Return the record of messages that were injected but not seen."""
        return os.path.join(self.mail, f"{names.inbox_stem(agent)}.injected.json")

    def request(self, request_id: str) -> str:
        """Return the file of a request."""
        names.check_component(request_id, kind="request id")
        return os.path.join(self.requests, f"{request_id}.json")

    def beat(self, agent: str) -> str:
        """Return the file of an agent's last heartbeat."""
        return os.path.join(self.presence, f"{names.inbox_stem(agent)}.json")
