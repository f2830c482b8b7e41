"""The table `[forge]` of a team file."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from bullpen.errors import Invalid
from bullpen.runs.forge.place import check_api, place_of
from bullpen.runs.teamfile.file_table import FileTable


class ForgeTable(FileTable):
    """`[forge]`: the repository whose issues become tasks, and where finished work goes."""

    # The page of the repository: https://HOST/OWNER/REPOSITORY.
    url: str
    # By default, what is on github.com is GitHub, and everything else is Gitea.
    kind: Literal["github", "gitea"] | None = None
    # Where its API is, if not where the kind has it.
    api: str | None = None
    # Which open issues become tasks; all that are given must hold.
    labels: list[str] = Field(default_factory=list)
    assignee: str | None = None
    milestone: str | None = None
    query: str | None = None
    # Whose issues become tasks, and whose words count besides those of collaborators.
    authors: Literal["collaborators", "anyone"] = "collaborators"
    trusted: list[str] = Field(default_factory=list)
    merge: Literal["forge", "queue"] = "forge"
    # One pull request for each task, or one for all that the merge queue merged in a night.
    pull_request: Literal["task", "night"] = "task"
    method: Literal["merge", "squash", "rebase"] = "merge"
    # How often work goes back to its owner before a person is asked.
    rounds: int = Field(default=2, ge=0, le=20)
    # The variable that has the token; by default, what `bullpen forge login` keeps.
    token_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    poll_s: float = Field(default=60.0, ge=1, le=86_400)

    @field_validator("url", "api")
    @classmethod
    def _is_an_address(cls, url: str | None, info: ValidationInfo) -> str | None:
        check = place_of if info.field_name == "url" else check_api
        try:
            if url is not None:
                check(url)
        except Invalid as error:
            raise ValueError(f"{error.message} {error.remedy}".rstrip(".")) from None
        return url

    @property
    def kind_or_guess(self) -> str:
        """Return which client to use."""
        return self.kind or ("github" if place_of(self.url).host == "github.com" else "gitea")
