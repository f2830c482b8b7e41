"""What CI has spoken of: where it speaks about other work, its silence is no consent."""

from __future__ import annotations

from collections.abc import Iterable

from bullpen.runs.forge.contract import ForgeClient
from bullpen.team.forge.shown import Verdict


class SeenCi:
    """The jobs of CI that were seen since this worker began, and whether the target has any."""

    def __init__(self, client: ForgeClient) -> None:
        self._client = client
        self._target: str | None = None
        self._on_target = False
        # Their names, of all pull requests and of earlier commits, too.
        self._jobs: set[str] = set()

    def known(self) -> tuple[bool, frozenset[str]]:
        """Return whether CI said anything in this repository, and which jobs of pull requests."""
        return self._on_target or bool(self._jobs), frozenset(self._jobs)

    def heard(self, verdicts: Iterable[Verdict]) -> None:
        """Remember what CI said about a pull request."""
        self._jobs.update(each.name for each in verdicts)

    async def target(self, branch: str) -> str | None:
        """Return the commit of the target, after reading once whether CI speaks about it."""
        head = await self._client.branch_head(branch)
        if head is not None and not self._on_target and head != self._target:
            self._target, self._on_target = head, bool(await self._client.verdicts(head))
        return head
