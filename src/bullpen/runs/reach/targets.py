"""The targets of `[[notify]]` that reach a person: an address, or all subscribed browsers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from bullpen.errors import Invalid
from bullpen.runs.reach.answer_links import LIFE_MS
from bullpen.runs.reach.due_rules import PINGS
from bullpen.view.notable_events import Kind

ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,40}://\S+")
"""An address of apprise, as far as its form tells."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where notices go: an address, the variable that holds one, or with neither, browsers."""

    url: str | None = None
    url_env: str | None = None
    on: tuple[Kind, ...] = PINGS
    # Local times at which nothing is sent.
    quiet: str | None = None
    timeout_s: float = 30.0
    # For how long the links of a notice work.
    life_ms: int = LIFE_MS

    @property
    def is_push(self) -> bool:
        """Whether it is all browsers that a person has subscribed."""
        return self.url is None and self.url_env is None

    @property
    def key(self) -> str:
        """What tells it from others in the record. The address may hold a password."""
        said = f"{self.url}\n{self.url_env}"
        return "push" if self.is_push else hashlib.sha256(said.encode()).hexdigest()[:16]

    @property
    def shown(self) -> str:
        """How people may call it: an address holds secrets and is never shown."""
        if self.is_push:
            return "push"
        if self.url_env is not None:
            return f"${self.url_env}"
        return f"{(self.url or '').partition('://')[0]}://…"

    def address(self, environ: Mapping[str, str]) -> str:
        """The address to send to. Raises Invalid: the variable holds none."""
        found = self.url if self.url_env is None else environ.get(self.url_env, "").strip()
        if found is None or ADDRESS.fullmatch(found) is None:
            raise Invalid(
                f"The variable {self.url_env} of [[notify]] does not hold an address.",
                remedy=f"Set it to an address of apprise: export {self.url_env}=ntfy://TOPIC",
            )
        return found
