"""The forge of a team, as commands show and handle it."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import typer

from bullpen.doors.cli.output.page import is_terminal
from bullpen.doors.cli.session import Session, directory, text_or_input
from bullpen.errors import BullpenError, Invalid, Refused
from bullpen.protocol.forge import ForgeNight, ForgeSettings
from bullpen.protocol.task import Task
from bullpen.protocol.team import MergeSettings
from bullpen.runs.forge.connect import connect, only_worker
from bullpen.runs.forge.place import place_of
from bullpen.runs.forge.readiness import Answer, examine
from bullpen.runs.forge.remote import remote_page
from bullpen.runs.forge.token import forget_token, keep_token
from bullpen.runs.forge.webhooks.deliveries import EVENTS
from bullpen.runs.forge.webhooks.hints import make_hook_secret
from bullpen.runs.forge.worker import ForgeWorker
from bullpen.runs.reach.web_address import address_of
from bullpen.runs.teamfile.read import read_team_file
from bullpen.runs.teamfile.team_records import forge_settings, merge_settings
from bullpen.team.forge.bodies import branch_name, state_of
from bullpen.team.forge.nights.rules import number_in
from bullpen.team.team import Team
from bullpen.view.text import Cell

_HOOK = "/forge/hook"
_STYLES = {"person": "attention", "returned": "attention", "merged": "good", "given_up": "bad"}


def login(session: Session, url: str | None, *, forget: bool) -> None:
    """Keep or remove the token of a forge."""
    place = place_of(url or _page_meant(session))
    home = session.settings.home
    if forget:
        removed = forget_token(home, place.host)
        said = f"The token of {place.host} is removed." if removed else "There was no token."
        session.page.result("forge-login/1", {"host": place.host, "kept": False}, said)
        return
    if is_terminal(sys.stdin):
        token = getpass.getpass(f"Token for {place.host}: ", stream=sys.stderr)
    else:
        token = text_or_input("-")
    path = keep_token(home, place.host, token)
    lines = [f"The token of {place.host} is kept in {path}.", "Check it: bullpen forge check"]
    if place.scheme != "https":
        session.page.warn(f"{place.host} is reached without encryption: others can read the token")
    session.page.result("forge-login/1", {"host": place.host, "kept": True}, *lines)


def _page_meant(session: Session) -> str:
    """Return the page of the repository that is meant without one being named."""

    async def settings_of(team: Team) -> ForgeSettings | None:
        return await team.forge.settings()

    try:
        settings = session.with_team(settings_of)
    except BullpenError:
        settings = None
    if settings is not None:
        return settings.repository
    found = remote_page(Path(directory(None)))
    if found is None:
        raise Invalid(
            "No forge is named here.",
            remedy="Name it: bullpen forge login https://github.com/OWNER/REPOSITORY",
        )
    return found


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a team has on its forge."""

    settings: ForgeSettings
    tasks: list[Task]
    nights: Sequence[ForgeNight] = ()


class ForgeCommands:
    """What `bullpen forge` does."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._page = session.page

    def check(self, file: str | None) -> None:
        """Show what is there and what is missing."""
        examined = partial(examine, home=self._session.settings.home, environ=os.environ)

        async def look(team: Team) -> list[Answer]:
            settings = _of(team, await team.forge.settings())
            return await examined(settings, await team.merges.settings())

        if file is None:
            answers = self._session.with_team(look)
        else:
            answers = anyio.run(partial(examined, *_in_file(Path(file))))
        is_ready = all(each.ok for each in answers)
        if self._page.json:
            value = [
                {"what": each.what, "ok": each.ok, "said": each.said, "remedy": each.remedy}
                for each in answers
            ]
            self._page.value("forge-check/1", {"ready": is_ready, "answers": value})
        else:
            for each in answers:
                mark = self._page.mark(("✓", "ok")) if each.ok else self._page.mark(("✗", "no"))
                self._page.line(f"{mark} {each.what}: {each.said}")
                if each.remedy:
                    self._page.line(f"  {each.remedy}")
        if not is_ready:
            raise typer.Exit(1)

    def status(self) -> None:
        """Show the tasks that are on the forge."""

        async def look(team: Team) -> _Seen:
            found = await team.forge.now()
            return _Seen(_of(team, found.settings), found.tasks, found.nights)

        seen = self._session.with_team(look)
        if self._page.json:
            rows = [_json(task) for task in seen.tasks]
            value = {"settings": seen.settings.raw, "tasks": rows}
            shown = [_night_json(night) for night in seen.nights]
            self._page.value("forge-status/1", {**value, **({"nights": shown} if shown else {})})
            return
        self._settings(seen.settings)
        for night in seen.nights:
            self._page.line(_night_text(night))
        if not seen.tasks:
            self._page.line("No issue is a task yet, and no work is there.")
            return
        self._page.line()
        self._page.table(
            ("task", "issue", "pull", "state", "rounds", "subject"),
            [self._row(task) for task in seen.tasks],
        )

    def _row(self, task: Task) -> tuple[str | Cell, ...]:
        work, state = task.facts.forge, state_of(task)
        assert work is not None
        issue = "" if work.issue is None else f"#{work.issue}"
        pull = "" if work.pull is None else f"#{work.pull}"
        said = f"needs you: {work.person}" if work.person else state.replace("_", " ")
        cell = Cell(said, _STYLES.get(state, ""))
        return f"#{task.id}", issue, pull, cell, str(work.rounds), task.subject

    def sync(self) -> None:
        """Look and write once."""
        told: list[str] = []

        async def once(team: Team) -> None:
            _of(team, await team.forge.settings())
            home = self._session.settings.home
            worker = ForgeWorker(
                team,
                partial(connect, team=team, home=home, environ=os.environ),
                alone=partial(only_worker, home, team.name),
            )
            await worker.once(told.append)

        self._session.with_team(once)
        self._page.result("forge-sync/1", {"told": told}, *(told or ["Everything is up to date."]))

    def hook(self, *, new: bool) -> None:
        """Show the address and the secret of the webhook."""
        home, told = self._session.settings.home, self._session.setting("public_url")

        async def look(team: Team) -> tuple[str | None, str]:
            _of(team, await team.forge.settings())
            return address_of(home, team.name, told), make_hook_secret(home, team.name, new=new)

        address, secret = self._session.with_team(look)
        url = None if address is None else f"{address}{_HOOK}"
        if self._page.json:
            self._page.value("forge-hook/1", {"url": url, "secret": secret, "events": [*EVENTS]})
            return
        if url is None:
            self._page.warn(
                "no public address is set: run bullpen web with --public-url, or set public_url"
            )
        self._page.fields(
            [
                ("URL", url or f"https://YOUR-ADDRESS{_HOOK}"),
                ("content type", "application/json"),
                ("secret", secret),
                ("events", ", ".join(EVENTS)),
            ]
        )

    def resume(self, task_id: str, *, keep_theirs: bool) -> None:
        """Let a task go on that waits for a person."""

        async def go_on(team: Team) -> Task:
            by, voice = await self._session.identity.speaks(team)
            head = await self._head(team, task_id) if keep_theirs else None
            return await team.forge.resume(task_id, by=by, voice=voice, head=head)

        n = number_in(task_id)
        if n is not None:
            self._resume_night(n, keep_theirs=keep_theirs)
            return
        task = self._session.with_team(go_on)
        self._page.result("forge-resume/1", _json(task), f"Task #{task.id} goes on.")

    def _resume_night(self, n: int, *, keep_theirs: bool) -> None:
        if keep_theirs:
            raise Invalid(
                "What others pushed to the branch of a night is not kept by this command.",
                remedy="Merge that branch into the target here, then resume the night.",
            )

        async def go_on(team: Team) -> ForgeNight:
            by, voice = await self._session.identity.speaks(team)
            return await team.nights.resume(n, by=by, voice=voice)

        night = self._session.with_team(go_on)
        self._page.result("forge-resume/1", _night_json(night), f"Night {night.n} goes on.")

    async def _head(self, team: Team, task_id: str) -> str | None:
        """Return the commit that the branch of a task has on the forge."""
        settings = _of(team, await team.forge.settings())
        home = self._session.settings.home
        work = (await team.tasks.get(task_id)).facts.forge
        branch = None if work is None else work.branch
        connection = await connect(settings, team=team, home=home, environ=os.environ)
        try:
            with anyio.fail_after(60):
                return await connection.client.branch_head(
                    branch or branch_name(team.name, task_id)
                )
        finally:
            await connection.aclose()

    def configure(
        self,
        *,
        url: str | None,
        texts: Mapping[str, str | None],
        labels: list[str] | None,
        numbers: Mapping[str, int | None],
    ) -> None:
        """Show or change which forge the team uses. An empty text takes a setting away."""
        changes: dict[str, Any] = {
            key: text.strip() or None for key, text in texts.items() if text is not None
        }
        changes |= {key: number for key, number in numbers.items() if number is not None}
        if labels is not None:
            changes["labels"] = [label for label in labels if label.strip()]
        _check_choices(changes)

        async def change(team: Team) -> ForgeSettings | None:
            settings = await team.forge.settings()
            if url is None and not changes:
                return settings
            by, voice = await self._session.identity.speaks(team)
            if url is not None:
                place = place_of(url)
                kind = "github" if place.host == "github.com" else "gitea"
                known = {} if settings is None else {**settings.raw}
                known |= {"repository": place.url, "kind": kind}
                settings = ForgeSettings.parse(known)
            given = _of(team, settings).evolve(**changes)
            _check_night(given)
            return await team.forge.configure(given, by=by, voice=voice)

        self._show(self._session.with_team(change))

    def unset(self) -> None:
        """Let the team use no forge."""

        async def change(team: Team) -> ForgeSettings | None:
            by, voice = await self._session.identity.speaks(team)
            return await team.forge.configure(None, by=by, voice=voice)

        self._show(self._session.with_team(change))

    def _show(self, settings: ForgeSettings | None) -> None:
        if self._page.json:
            value = {"settings": None if settings is None else settings.raw}
            self._page.value("forge-settings/1", value)
        elif settings is None:
            self._page.line("This team uses no forge. Set one: bullpen forge set --url URL")
        else:
            self._settings(settings)

    def _settings(self, settings: ForgeSettings) -> None:
        asked = [*settings.labels, settings.assignee, settings.milestone, settings.query]
        self._page.fields(
            [
                ("repository", f"{settings.repository} ({settings.kind})"),
                ("issues", ", ".join(each for each in asked if each) or "all that are open"),
                ("of", "anyone" if settings.strangers else "collaborators"),
                ("merges", "the forge" if settings.merge == "forge" else "the merge queue"),
                *([("pull requests", "one a night")] if settings.pull_request == "night" else []),
                ("rounds", str(settings.rounds)),
            ]
        )


def _in_file(path: Path) -> tuple[ForgeSettings, MergeSettings | None]:
    """Return what a team file says about a forge and about merging."""
    read = read_team_file(path)
    settings = forge_settings(read)
    if settings is None:
        raise Refused(
            f"{path} has no table [forge].",
            reason="no_forge",
            remedy="Add [forge] with the url of the repository.",
        )
    folder = str(read.folder.resolve())
    return settings, None if read.merge is None else merge_settings(read.merge, folder)


_CHOICES: Mapping[str, tuple[str, ...]] = {
    "kind": ("github", "gitea"),
    "merge": ("forge", "queue"),
    "pull_request": ("task", "night"),
    "method": ("merge", "squash", "rebase"),
}


def _check_choices(changes: Mapping[str, Any]) -> None:
    for key, choices in _CHOICES.items():
        if key in changes and changes[key] not in choices:
            raise Invalid(
                f"{changes[key]!r} is not a valid --{key.replace('_', '-')} value.",
                remedy=f"Use {', '.join(choices[:-1])} or {choices[-1]}.",
            )


def _check_night(settings: ForgeSettings) -> None:
    if settings.pull_request == "night" and settings.merge != "queue":
        raise Invalid(
            "Only work that the merge queue merged can share a pull request.",
            remedy="Add --merge queue.",
        )


def _of(team: Team, settings: ForgeSettings | None) -> ForgeSettings:
    if settings is None:
        raise Refused(
            f"Team {team.name!r} uses no forge.",
            reason="no_forge",
            remedy="Set one: bullpen forge set --url https://github.com/OWNER/REPOSITORY",
        )
    return settings


def _night_text(night: ForgeNight) -> str:
    work = night.work
    pull = "no pull request yet" if work.pull is None else f"pull request #{work.pull}"
    state = f"needs you: {work.person}" if work.person else (work.outcome or "open")
    return f"night {night.n}: {pull}, {len(night.tasks)} tasks, {state.replace('_', ' ')}"


def _night_json(night: ForgeNight) -> dict[str, Any]:
    work = night.work
    return {
        "night": night.n,
        "tasks": [*night.tasks],
        "pull": work.pull,
        "branch": work.branch,
        "head": work.head,
        "rounds": work.rounds,
        "person": work.person,
        "outcome": work.outcome,
    }


def _json(task: Task) -> dict[str, Any]:
    work = task.facts.forge
    return {
        "task": task.id,
        "subject": task.subject,
        "state": state_of(task),
        "issue": None if work is None else work.issue,
        "pull": None if work is None else work.pull,
        "branch": None if work is None else work.branch,
        "head": None if work is None else work.head,
        "rounds": 0 if work is None else work.rounds,
        "person": None if work is None else work.person,
        "outcome": None if work is None else work.outcome,
    }
