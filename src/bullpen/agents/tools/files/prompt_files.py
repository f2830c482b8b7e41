"""Read a project's files into an agent's prompt, under the same rules as the tool Read.

A repository is written by others. Its files reach a model only if the agent could read them
without asking, and only if they really lie in the project: a link or an import that leads out of
it is left out, unless a rule names that place. Rules come from people and from trusted files.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bullpen.agents.contracts.call import Call, Rights, Ruling
from bullpen.agents.permissions.rule_language.paths import below
from bullpen.agents.permissions.rule_language.rule import rule_of
from bullpen.agents.system.project_files import up_to_git_root
from bullpen.agents.system.token_shapes import without_tokens
from bullpen.agents.tools.files.safe_open import folder_of, look_up, open_in
from bullpen.agents.tools.files.text_or_binary import kind_of_binary
from bullpen.by_name import load
from bullpen.errors import BullpenError
from bullpen.protocol.agent import AgentSpec

FILE_BYTES_MAX = 256 * 1024
"""The most bytes that are read of one file."""

FILES_MAX = 100
"""The most files that are read for one prompt."""


@dataclass(frozen=True, slots=True)
class PromptFile:
    """A file that was read for a prompt. `size` and `digest` are of the bytes that were read."""

    path: str
    real: str
    text: str
    size: int
    digest: str


class PromptFiles:
    """The files of a project that one agent's prompt is made of, and those that are left out."""

    def __init__(
        self,
        spec: AgentSpec,
        *,
        user_home: str | None = None,
        claude_home: str | None = None,
        redact: Callable[[str], str] = without_tokens,
    ) -> None:
        self.user_home = os.path.realpath(user_home or os.path.expanduser("~"))
        # Where Claude Code keeps the user's own files.
        self.claude_home = claude_home or os.path.join(self.user_home, ".claude")
        self.root = project_root(spec.cwd, self.user_home)
        # The rules that the user has for all projects.
        self.user_rules = Path(self.claude_home, "CLAUDE.md")
        self.taken: dict[str, PromptFile] = {}
        # The path of each file that was left out, and why.
        self.left_out: dict[str, str] = {}
        self._rights = reading_rights(spec, self.user_home, self.root)
        self._redact = redact

    def read(self, path: Path, *, of_user: bool = False) -> PromptFile | None:
        """The file, or None if it does not exist, was read before or is left out.

        One `of_user`, not of the project, may lie anywhere; only a rule leaves it out.
        """
        try:
            real = look_up(str(path), self.root)
            if not os.path.lexists(real) or real in self.taken:
                return None
            why = self._refusal(str(path), real, of_user=of_user)
            raw = read_regular(real, FILE_BYTES_MAX) if why is None else b""
        except (BullpenError, OSError) as error:
            why, raw = _words(error), b""
        if why is None and (kind := kind_of_binary(raw)) is not None:
            why = f"it is {kind}"
        if why is not None:
            if len(self.left_out) < FILES_MAX:
                self.left_out[str(path)] = why
            return None
        text = self._redact(raw.decode("utf-8", "replace").removeprefix("\ufeff"))
        digest = hashlib.sha256(raw).hexdigest()
        found = PromptFile(str(path), real, text, len(raw), digest)
        self.taken[real] = found
        return found

    def expand(self, path: str, folder: Path) -> Path:
        """The file that an import in a folder names. `~` is the home of the user."""
        if path.startswith("~/"):
            return Path(self.user_home, path[2:])
        return folder / path

    def _refusal(self, path: str, real: str, *, of_user: bool) -> str | None:
        if len(self.taken) >= FILES_MAX:
            return f"a prompt has at most {FILES_MAX} files"
        if of_user:
            ruling = _ruling_on_reading(path, real, self._rights)
            return None if ruling.effect == "allow" or ruling.rule is None else ruling.why
        return unreadable_for(path, real, self._rights, self.root)


def project_root(cwd: str, user_home: str) -> str:
    """The git root of a directory. The user's home is never part of a project in it."""
    here = os.path.realpath(cwd)
    root = str(up_to_git_root(Path(here))[-1])
    return here if below(user_home, root) else root


def reading_rights(spec: AgentSpec, user_home: str, root: str) -> Rights:
    """What an agent may read without asking, in its project, by the rules of its spawn."""
    policy = spec.policy
    return Rights(
        mode=spec.start_mode,
        cwd=spec.cwd,
        user_home=user_home,
        allow=tuple(policy.allow),
        deny=tuple(policy.deny),
        ask=tuple(policy.ask),
        directories=tuple(policy.directories),
        readable=(root,),
    )


def _ruling_on_reading(path: str, real: str, rights: Rights) -> Ruling:
    # Whoever only starts an agent judges no call, and what judges command lines is big.
    decide: Callable[[Call, Rights], Ruling] = load("bullpen.agents.permissions.decide:decide")
    return decide(Call("Read", {"file_path": path}, "read", real=real), rights)


def unreadable_for(path: str, real: str, rights: Rights, root: str) -> str | None:
    """Why a project may not show a file to an agent; None if it may.

    A mode that allows everything, or a rule for the whole tool, does not name places outside.
    """
    ruling = _ruling_on_reading(path, real, rights)
    if ruling.effect != "allow":
        return ruling.why
    named = ruling.rule is not None and rule_of(ruling.rule).specifier is not None
    folders = [root, *map(os.path.realpath, rights.directories)]
    if named or any(below(real, folder) for folder in folders):
        return None
    return f"it is outside the project {root}, and no rule allows it by its path"


def read_regular(real: str, bytes_max: int) -> bytes:
    """The first bytes of the regular file at a real path. Follows no link and never blocks.

    Raises Refused if a part of the path is now a link, and OSError.
    """
    with folder_of(real) as (folder, name):
        # Looked at first: to open a device can have effects.
        if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError(0, "it is not a regular file")
        descriptor = open_in(folder, name, os.O_RDONLY | os.O_NONBLOCK, real=real)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(0, "it is not a regular file")
            return file.read(bytes_max)


def _words(error: BullpenError | OSError) -> str:
    if isinstance(error, BullpenError):
        return error.message.rstrip(".")
    return error.strerror or str(error)
