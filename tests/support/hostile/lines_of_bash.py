"""Command lines at random: well formed ones by a grammar, and heaps of tokens in any order."""

from __future__ import annotations

import random

PROGRAMS = ("a", "b", "c", "dd")

_WORDS = (
    "x", "'x y'", '"x y"', "x\\ y", "''", '""', "x'y'\"z\"", "#x", "x#y", "\\#", "'#'", "\\;",
    "';'", '";"', "\\\\", "'\\'", '"\\\\"', '"\\""', "'\"'", '"\'"', "x=y", "-x", "--x=y",
    "$HOME", '"$HOME"', "${HOME}", "${x:-y}", "${x:-y z}", '"${x:-y}"', "$x", "*", "?", "[x]",
    "{x,y}", "{1..3}", "~", "x~", "x=~", "$((1+2))", '"$((1+2))"', "x\\\ny", '"x\\\ny"', "$",
    '"$"', "$.", "é", "'é'", "!", "x!", "{", "}", "]", "^", "%", "x:~", "@", "2", "'\n'", '"\n"',
    '"`"x`"`"', "${#HOME}", "${HOME##*/}", '"\\$x"', "\\$x", '"\\`"', "=", "x=", "'$(a)'",
    "\\$\\(a\\)", '"\\$(a)"',
)  # fmt: skip
_SPACES = (" ", "  ", "\t", " \\\n", " ")
_JOINTS = (
    ";", " ; ", "&&", " && ", "||", " || ", "|", " | ", " |& ", "&", " & ", "\n", " \n\n ",
    " # x\n", " #'\n", ";#$(\n", " &&\n", "|\n", " && \\\n",
)  # fmt: skip
_REDIRECTS = (
    "> f", ">f", ">> f", ">| f", "2> f", "2>&1", ">&2", "&> f", "&>> f", ">& f", "< /dev/null",
    "<> f", "2>&-", "<<< x", "<<<'x y'", "2>&1>f", "> 'f g'", '>"f"', ">f\\ g", "> >(a)",
    "< <(b)", "> $x", "<<< $(c)", "3>f",
)  # fmt: skip

TOKENS = (
    *PROGRAMS, *PROGRAMS, " ", " ", " ", "\t", "\n", "\n", ";", ";", "&", "&&", "|", "||", "(",
    ")", "(", ")", "{ ", "; }", "'", "'", '"', '"', '"', "`", "`", "\\", "\\", "$(", "$(", ")",
    "${", "}", "${x:-", "$((", "))", "<(", ">(", "> f", ">f", "2>&1", "<<E\n", "<<'E'\n",
    "<<-E\n", "\nE\n", "\n\tE\n", "<<< ", "#", " #", "\\\n", "x=", "x", "$x", "$HOME", "*", "~",
    "!", "! ", "if ", " then ", " fi", "case x in ", " esac", "x) ", ";;", "[[ ", " ]]", "$'",
    '$"', "-x", "=", "[", "]", ",", "\\'", '\\"', "\\`", "\\$", "2", ">&", "<&", "- ", "{", "}",
    "\r", "é", "E\n", "E", "()", "f()", "time ", "function f ", "$", "1", "<", ">", "<<", "#\n",
    "\\\\", "@", "%", "^",
)  # fmt: skip


class LineMaker:
    """Makes command lines. The same dice make the same lines."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._bodies: list[str] = []

    def heap(self) -> str:
        """Tokens in any order."""
        return "".join(self._dice.choice(TOKENS) for _ in range(self._dice.randint(2, 14)))

    def damaged(self) -> str:
        """A well formed line with one thing taken out, put in or put twice."""
        line = self.line()
        at = self._dice.randint(0, len(line))
        to = min(len(line), at + self._dice.randint(0, 2))
        return line[:at] + self._dice.choice(("", line[at:to] * 2, *TOKENS)) + line[to:]

    def line(self) -> str:
        """A well formed line."""
        return self._list(3)

    def _list(self, depth: int) -> str:
        outside, self._bodies = self._bodies, []
        text = self._command(depth)
        for _ in range(self._dice.randint(0, 2)):
            joint = self._dice.choice(_JOINTS)
            if self._bodies:
                text += "".join(["\n", *self._bodies])
                self._bodies = []
                joint = ""
            text += joint + self._command(depth)
        text += "".join(["\n", *self._bodies]) if self._bodies else ""
        self._bodies = outside
        return text

    def _command(self, depth: int) -> str:
        kind = self._dice.random()
        if depth and kind < 0.08:
            return f"({self._list(depth - 1)})"
        if depth and kind < 0.16:
            inside = self._list(depth - 1)
            return f"{{ {inside}\n}}"
        pieces = [self._dice.choice((*PROGRAMS, "'a'", '"b"', "\\c", "d''d", "d\\\nd"))]
        if self._dice.random() < 0.1:
            pieces.insert(0, self._dice.choice(("x=y", "x='y z'", "x=$(a)", "x=", ">f", "2>&1")))
        pieces += [self._argument(depth) for _ in range(self._dice.randint(0, 3))]
        return "".join(piece + self._dice.choice(_SPACES) for piece in pieces).rstrip(" \t\\\n")

    def _argument(self, depth: int) -> str:
        kind = self._dice.random()
        if kind < 0.2:
            return self._dice.choice(_REDIRECTS)
        if kind < 0.27:
            return self._here_document(depth)
        if depth and kind < 0.5:
            inside = self._list(depth - 1)
            form = self._dice.choice(
                ("$(@)", '"$(@)"', "x$(@)y", "<(@)", "${x:-$(@)}", '"${x:-$(@)}"', "`@`", '"`@`"')
            )
            if "`" in form and any(char in inside for char in '`\\"\n'):
                form = "$(@)"
            return form.replace("@", inside)
        return self._dice.choice(_WORDS)

    def _here_document(self, depth: int) -> str:
        mark = self._dice.choice(("E", "'E'", '"E"', "\\E"))
        dash = self._dice.choice(("", "-"))
        inside = self._dice.choice(("x", "it's", '"', "$x", "$(a x)", "`b`", "# x", "\\$(c)", ""))
        self._bodies.append(f"{inside}\n{dash and self._dice.choice(('', chr(9)))}E\n")
        return f"<<{dash}{mark}"
