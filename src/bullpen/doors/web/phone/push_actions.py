"""Subscribes the browser of a visitor to pushes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from bullpen.errors import Invalid, NotFound
from bullpen.runs.reach.browsers import Browsers, browser_from


class PushActions:
    """What a visitor who may act does about the pushes of one team."""

    def __init__(self, home: Path, team: str) -> None:
        self._browsers = Browsers(home)
        self._team = team

    def key(self) -> str:
        """The key with which browsers subscribe. Raises Unavailable, Unreadable."""
        return self._browsers.public_key()

    def act(self, what: str, form: Mapping[str, str]) -> str:
        """Add or remove a browser. Raises NotFound, Invalid, Unavailable, Unreadable."""
        try:
            given = json.loads(form.get("subscription", ""))
        except ValueError:
            given = None
        if not isinstance(given, dict):
            raise Invalid("This is no subscription.", remedy="Load the page again.")
        browser = browser_from(self._team, given)
        if what == "subscribe":
            self._browsers.add(browser)
            return "This browser gets a notice when something waits for you."
        if what == "unsubscribe":
            self._browsers.remove(self._team, browser.endpoint)
            return "This browser gets no notices any more."
        raise NotFound(f"There is no action {what!r}.", remedy="Load the page again.")
