"""Find the rule for files that the words of a command line match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bullpen.agents.contracts.call import Rights
from bullpen.agents.permissions.rule_language import paths
from bullpen.agents.permissions.rule_language.rule import PATH_TOOLS, Rule
from bullpen.agents.permissions.shell.parse import CommandLine
from bullpen.agents.permissions.shell.path_words import named_paths

FILES_MAX = 300
"""More files than a person names in one line. Looking them up takes time."""


@dataclass(frozen=True, slots=True)
class Touched:
    """A rule for files that a line matches, certainly or perhaps; then `doubt` says why."""

    rule: Rule
    doubt: str | None = None

    @property
    def certain(self) -> bool:
        """Whether the rule matches for sure."""
        return self.doubt is None


def touched_by(
    line: CommandLine, rules: list[Rule], rights: Rights, bases: paths.Bases
) -> Touched | None:
    """The first rule for files that the words of a line match; certain matches come first."""
    of_files = [rule for rule in rules if rule.tool in PATH_TOOLS and rule.specifier is not None]
    if not of_files:
        return None
    patterns = [(rule, paths.DenyPattern(rule.specifier or "", bases)) for rule in of_files]
    named = named_paths(line, cwd=rights.cwd, user_home=rights.user_home)
    perhaps = None if named.doubt is None else Touched(of_files[0], named.doubt)
    looked_up = 0
    for text, exact in named.texts.items():
        for base in named.bases:
            for each in _meant(text, base, rights.user_home):
                looked_up += 1
                if looked_up > FILES_MAX:
                    return Touched(of_files[0], "it names too many files")
                by = next((rule for rule, pattern in patterns if pattern.matches(each)), None)
                if by is not None and exact:
                    return Touched(by)
                if by is not None:
                    perhaps = perhaps or Touched(by, "a pattern may match the file")
                elif not each.sure:
                    perhaps = perhaps or Touched(of_files[0], f"the real path of {text} is unknown")
    return perhaps


def hides_below(rules: Iterable[Rule], bases: paths.Bases) -> bool:
    """Whether a rule may deny reading a file in an agent's directories."""
    of_files = [rule for rule in rules if rule.tool in ("Read", "Glob", "Grep")]
    roots = (bases.cwd, *bases.directories)
    patterns = (paths.DenyPattern(rule.specifier or "**", bases) for rule in of_files)
    return any(pattern.may_match_in(roots) for pattern in patterns)


def _meant(text: str, base: str, user_home: str) -> Iterator[paths.RealPath]:
    """The paths that a text means in a directory: its own, and those that it matches."""
    yield paths.place(text, base, user_home)
    if any(char in text for char in "*?["):
        found = paths.globbed(paths.absolute(text, base, user_home))
        if found is None:
            yield paths.NOWHERE
        for each in found or ():
            yield paths.place(each, base, user_home)
