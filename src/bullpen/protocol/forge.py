"""A team and a forge: how a team uses it, and what is known there of the work of one task.

Both are facts of Bullpen's: of a team in `bullpen.forge`, of a task in `metadata.bullpen.forge`.
"""

from __future__ import annotations

from typing import Literal

from bullpen.protocol.record import OrDefault, StrictBool, Wire, field

WRITES_MAX = 300
"""How many writes to a forge one task may make. Then a person has to take over."""

HEARD_MAX = 600
"""How many words of a forge one task may hear. Then a person has to take over."""

ASKED_MAX = 100
"""How many words one return may have. Others wait for the next one."""

Merger = Literal["forge", "queue"]
"""Who merges: the forge, when it allows it, or Bullpen's merge queue, which pushes the target."""

PullPer = Literal["task", "night"]
"""What one pull request holds: the work of one task, or all that our queue merged in a night."""

WriteKind = Literal[
    "push", "pull", "state", "reply", "answer", "resolve", "merge", "close_pull", "close", "delete"
]
"""A write to a forge: push the branch, open the pull request, comment the state on the issue,
answer in a thread, answer a comment, resolve a thread, merge or close the pull request, close the
issue, delete the branch.
"""

WriteState = Literal["due", "done", "dropped"]
"""Whether a write must still be made, was made, or is no longer wanted."""

AskedKind = Literal["verdict", "thread", "review", "comment", "conflict"]

ForgeOutcome = Literal["merged", "pull_closed", "issue_closed", "gone"]
"""How the work of a task ended on a forge: merged, its pull request closed by hand, its issue
closed while it was open, or its branch or pull request deleted.
"""


class ForgeSettings(Wire):
    """How a team uses a forge. A fact of the team."""

    # The page of the repository: https://HOST/OWNER/NAME.
    repository: str = field(min_length=1)
    # Which client: "github" or "gitea", which is Forgejo's too.
    kind: str = field(min_length=1)
    # Where its API is, if not where the kind has it.
    api: str | None = None
    # Which open issues become tasks. All that are given must hold.
    labels: list[str] = field(default_factory=list)
    assignee: str | None = None
    milestone: str | None = None
    query: str | None = None
    # Whether issues become tasks whoever wrote them. Their later words still do not count.
    strangers: StrictBool = False
    # Accounts whose words count although the forge does not let them write.
    trusted: list[str] = field(default_factory=list)
    # The branch that pull requests go to; None for the default branch.
    target: str | None = None
    merge: Merger = "forge"
    pull_request: PullPer = "task"
    method: Literal["merge", "squash", "rebase"] = "merge"
    # How many times work goes back to its owner before a person is asked.
    rounds: int = field(default=2, ge=0, le=20)
    # How often the forge is asked while nothing happens.
    poll_s: float = field(default=60.0, ge=1, le=86_400)
    # Where the token is, if not in Bullpen's own file.
    token_env: str | None = None


class ForgeWrite(Wire):
    """One write to a forge: recorded before it is made, and again when it is done."""

    kind: WriteKind
    # What causes it. A cause has one write of a kind, ever.
    key: str
    # Its number among the writes of this task; its marker has it.
    n: int = field(ge=1)
    state: WriteState = "due"
    # What it is about there: a commit, a thread, a comment, a branch.
    target: str | None = None
    # Its id there: of a comment or a pull request, or the commit of a merge.
    id: str | None = None
    # What it says there, until it is done, where the task does not say it any more later.
    text: str | None = None
    # A digest of the text as it was last written, for texts that are edited.
    digest: str | None = None
    at_ms: int


class ForgeAsked(Wire):
    """One thing that a forge asks for and that the owner was told, to be answered by number."""

    number: int = field(ge=1)
    kind: AskedKind
    # Which words: a digest; and those of earlier words that it repeats.
    heard: str
    also: list[str] = field(default_factory=list)
    # Where to answer: a thread, a comment or a review. None if there is nothing to answer.
    target: str | None = None
    # The commit that it is about.
    commit: str | None = None


class ForgeWork(Wire):
    """The work of a task on a forge. It is a fact of that task."""

    # HOST/OWNER/NAME.
    repository: str = field(min_length=1)
    # The issue that it came from, and whether it is closed there.
    issue: int | None = None
    # Who wrote it, and what the forge said when it was taken or last changed.
    author: str | None = None
    updated: str | None = None
    pull: int | None = None
    branch: str | None = None
    # The night whose pull request has its work, if several tasks share one.
    night: int | None = None
    # The commit that was pushed last, and the attempt whose work it is.
    head: str | None = None
    attempt: int | None = None
    # How many times the work went back to its owner.
    rounds: int = 0
    # What the owner was told last, until it is answered.
    asked: OrDefault[list[ForgeAsked]] = field(default_factory=list)
    # Digests of all words that were acted on.
    heard: list[str] = field(default_factory=list)
    # Those of them that only a person was told. If the work goes on, its owner is told them too.
    withheld: OrDefault[list[str]] = field(default_factory=list)
    # Why a person has to look, until one did.
    person: str | None = None
    # The state that the labels of the issue show.
    labelled: str | None = None
    outcome: ForgeOutcome | None = None
    # Which time it is that the work goes to the forge: again after it had ended.
    life: int = field(default=1, ge=1)
    # The number of the next write, and all writes that were begun.
    next: int = field(default=1, ge=1)
    writes: list[ForgeWrite] = field(default_factory=list)


class ForgeFix(Wire):
    """One thing that the forge asks of the work of a night, and the task that does it."""

    asked: ForgeAsked
    task: str
    # The job of CI that it is about, as a digest of its name.
    job: str | None = None


class ForgeNight(Wire):
    """What our queue merged since a night began: one branch and one pull request. A fact of the
    team.
    """

    n: int = field(ge=1)
    at_ms: int
    # The tasks whose work is in it, in the order in which they were merged.
    tasks: list[str] = field(default_factory=list)
    # What the forge asked for, and who does it.
    fixes: list[ForgeFix] = field(default_factory=list)
    # The commit that joins the forge's target with ours, if the queue has merged nothing since.
    joined: str | None = None
    joined_ms: int | None = None
    # Its branch, its pull request and what was written there.
    work: ForgeWork
