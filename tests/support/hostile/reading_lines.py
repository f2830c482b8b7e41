"""Lines of programs that read, with every kind of word that writes, runs or leads out."""

from __future__ import annotations

import random
from dataclasses import dataclass

from bullpen.agents.permissions.reading.reading_table import READING

_PROGRAMS = sorted(
    {name.rstrip("+") for name in READING}
    | {
        "git config",
        "git stash",
        "git reflog expire",
        "git branch -D",
        "awk",
        "xargs",
        "tee",
        "sed",
    }
)
_OPTIONS = (
    "-a", "-l", "-n", "-r", "-R", "-L", "-H", "-f", "-e", "-o", "-O", "-i", "-p", "-c", "-C",
    "-d", "-m", "-z", "-s", "-w", "-x", "-v", "-u", "-A", "-B", "-g", "-t", "-P", "-S", "-T",
    "-D", "-F", "-5", "-n5", "-nE", "-la", "-pOtouch", "-Otouch", "-oC", "-fC", "-LR", "-exec",
    "-delete", "-fprint", "-fls", "-ok", "-name", "-newer", "-follow", "-files0-from", "-printf",
    "-path", "--output=C", "--output", "--files0-from=list", "--file=C", "--follow",
    "--dereference", "--compress-program=./evil", "--pre=./evil", "--pre", "--ext-diff",
    "--textconv", "--no-index", "--open-files-in-pager=./evil", "--exclude-from=C", "--recursive",
    "--regexp=x", "--files", "--show-signature", "--submodule=diff", "--contents=C", "--list",
    "--color", "--", "--null", "--format=%G?", "--oneline", "--stat", "--short",
    "--edit-description", "--from-file=C", "--git-dir=sub", "--exec-path=.", "--no-pager",
    "-c core.fsmonitor=./evil", "-C sub", "--help",
)  # fmt: skip
_OPERANDS = (
    "file.txt", "sub", ".", "./file.txt", "sub/inner", "*", "*.txt", "su?", "sub/*", "C", "/",
    "..", "../outside", "sub/../..", "link", "link/secret", "dangling", "l*", "*/secret", "~",
    "~/x", "x", "$HOME", "${x:-C}", "$(./evil)", "`./evil`", "<(./evil)", "{C,x}", "[l]ink",
    "\\[x", "'a b'", "1,5p", "'w C'", "'1e ./evil'", "'s/a/b/w C'", "HEAD", "HEAD~1",
    "HEAD:file.txt", "./evil", "';'", "'{}'", "+", "+%s", "%s", "-", "/dev/null", "/dev/tty",
    "@list", "--output=w", "-p", "a::b", "a::../../outside/secret",
    "/proc/self/cwd/../outside/secret", "''", "'~'", "x=y", "foo:*",
)  # fmt: skip
_TAILS = (
    " > C", " >> w", " 2>/dev/null", " 2>&1", " | head -1", " | wc -l", " | tee C", " | sh",
    "; ./evil", " && ls", " && cd link && cat secret", " || true", " < file.txt", " < C", " <> w",
    " | xargs cat", " <<E\n$(./evil)\nE", " &", "\n./evil", " >| w", " &> C", " | sort -u",
    " | ./evil",
)  # fmt: skip
_HEADS = (
    "cd sub && ",
    "cd link && ",
    "cd .. && ",
    "X=1 ",
    "env ",
    "! ",
    "cd ./sub; ",
    "PATH=. ",
    "(",
)


@dataclass(slots=True)
class ReadingLines:
    """Makes lines; `outside` is a folder with a secret that nothing may read or write."""

    dice: random.Random
    outside: str

    def next(self) -> str:
        """The next line."""
        dice = self.dice
        words = [dice.choice(_PROGRAMS)]
        words += dice.choices(_OPTIONS, k=dice.choice([0, 0, 1, 1, 2, 3]))
        words += dice.choices(_OPERANDS, k=dice.choice([0, 1, 1, 2, 3]))
        line = " ".join(words)
        if dice.random() < 0.3:
            line += dice.choice(_TAILS)
        if dice.random() < 0.15:
            head = dice.choice(_HEADS)
            line = head + line + (")" if head == "(" else "")
        return line.replace("C", f"{self.outside}/c{dice.randint(0, 9)}" if dice.random() < 0.7
                            else f"{self.outside}/secret")  # fmt: skip
