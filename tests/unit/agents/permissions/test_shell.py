"""How command lines are split: every simple command, or the reason why nobody can know."""

from __future__ import annotations

import pytest

from bullpen.agents.permissions.shell.parse import LinePart, Word, prefix, split
from support.rows import each_row
from support.steps import steps


def shown(command: str) -> list[list[str]]:
    """The words of each part; those that are not literal in <>."""
    return [
        [word.text if word.literal else f"<{word.text}>" for word in part.words]
        for part in split(command).parts
    ]


READ = [
    ("git status", [["git", "status"]]),
    ("", []),
    ("\n# nothing\n", []),
    ("a; b & c && d || e | f |& g\nh", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"], ["g"], ["h"]]),
    ("a;b&c&&d||e|f", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
    ("(a; (b)) ; { c; d; }", [["a"], ["b"], ["c"], ["d"]]),
    ("echo $(a x)", [["a", "x"], ["echo", "<$(a x)>"]]),
    ("echo `a x`", [["a", "x"], ["echo", "<`a x`>"]]),
    ("echo `a \\`b\\``", [["b"], ["a", "<`b`>"], ["echo", "<`a \\`b\\``>"]]),
    ('echo "x $(a "y $(b)") z"', [["b"], ["a", "<y $(b)>"], ["echo", '<x $(a "y $(b)") z>']]),
    ("cat < <(a) > >(b)", [["a"], ["b"], ["cat"]]),
    ("echo ${x:-$(a b)}", [["a", "b"], ["echo", "<${x:-$(a b)}>"]]),
    ("cat <<< $(a)", [["a"], ["cat"]]),
    ("cat <<E\n$(a) `b` \\$(c)\nE\nd", [["cat"], ["a"], ["b"], ["d"]]),
    ("cat <<'E'\n$(a)\nE\nd", [["cat"], ["d"]]),
    ("cat <<-E\n\t$(a)\n\tE\nd", [["cat"], ["a"], ["d"]]),
    ("cat <<A <<'B'\n$(a)\nA\n$(b)\nB\nc", [["cat"], ["a"], ["c"]]),
    ("cat <<E; b\nx\nE\nc", [["cat"], ["b"], ["c"]]),
    ("git commit -m \"$(cat <<'E'\n$(a) it's\nE\n)\"", [["cat"], ["git", "commit", "-m", "..."]]),
    ("g\"i\"t st'at'us", [["git", "status"]]),
    ("\\git \\$x '$x' \"\\$x\"", [["git", "$x", "$x", "$x"]]),
    ("git st\\\natus \\\n x", [["git", "status", "x"]]),
    ("echo 'a\nb' \"c\nd\"", [["echo", "a\nb", "c\nd"]]),
    ("echo a#b #c'\"$(\n d", [["echo", "a#b"], ["d"]]),
    ("echo $x \"$x\" ${x} $((1+2)) $?", [["echo", "<$x>", "<$x>", "<${x}>", "<$((1+2))>", "<$?>"]]),
    ("ls * a? [b] {c,d}", [["ls", "<*>", "<a?>", "<[b]>", "<{c,d}>"]]),
    ("ls ~ ~x y=~ y~", [["ls", "<~>", "<~x>", "<y=~>", "y~"]]),
    ("git log HEAD~3 HEAD^ x=y --a=b:c", [["git", "log", "HEAD~3", "HEAD^", "x=y", "--a=b:c"]]),
    ("[ -f x ] && test -d y", [["[", "-f", "x", "]"], ["test", "-d", "y"]]),
    ("set -euo pipefail; a", [["set", "-euo", "pipefail"], ["a"]]),
    ("echo 'é' é", [["echo", "é", "é"]]),
]  # fmt: skip


@each_row(("command", "parts"), READ)
def test_every_simple_command_is_a_part(command: str, parts: list[list[str]]) -> None:
    """R-4.1: what is decided about is what bash would run."""
    line = split(command)
    assert line.opaque is None
    seen = shown(command)
    assert len(seen) == len(parts)
    for words, expected in zip(seen, parts, strict=True):
        assert words[: len(expected) - 1] == expected[:-1]
        assert words[-1:] == expected[-1:] or expected[-1] == "..."


def test_redirections_are_told_apart_from_words() -> None:
    """R-4.1: the files that a shell opens are seen, whether they are read or written."""
    line = split(">a cmd 2>>b x <c >|d <>e &>f >&g 2>&1 >&- <<<h y &>>'i j'")
    assert line.opaque is None
    (part,) = line.parts
    assert prefix(part) == ("cmd", "x", "y")
    opened = [(each.target.text, each.writes) for each in part.redirects]
    assert opened == [
        ("a", True), ("b", True), ("c", False), ("d", True), ("e", True), ("f", True), ("g", True),
        ("i j", True),
    ]  # fmt: skip


def test_redirections_behind_a_group_are_a_part_of_their_own() -> None:
    """R-4.1: a group writes a file as well as a command does."""
    for command in ("(a) >f", "{ a; } 2>f", "(a)>f"):
        line = split(command)
        assert line.opaque is None
        assert [each.target.text for each in line.parts[-1].redirects] == ["f"]
        assert line.parts[-1].words == ()


def test_a_target_that_is_not_literal_is_marked() -> None:
    """R-4.1: where bash decides which file it is, no rule can."""
    for target in ("$x", "~/x", "*", "$(a)", ">(a)", '"$x"', "{a,b}"):
        (redirect,) = split(f"cmd > {target}").parts[-1].redirects
        assert not redirect.target.literal


@pytest.mark.parametrize(
    "command",
    ["x=1", "x=1 cmd", "x= cmd", "x+=1 cmd", "PA\\\nTH=. cmd", ">f x=1 cmd", "x=$(a) cmd"],
)
def test_variables_that_are_set_are_noted(command: str) -> None:
    """R-4.1: a variable changes what a program does, so a part that sets one is marked."""
    line = split(command)
    assert line.opaque is None
    assert line.parts[-1].assigns
    assert prefix(line.parts[-1]) in {(), ("cmd",)}


@pytest.mark.parametrize("command", ['"x"=1', "x\\=1", "cmd x=1", "1x=2", "x-y=1"])
def test_what_only_looks_like_an_assignment_is_a_word(command: str) -> None:
    """R-4.1: bash runs a program of that name."""
    (part,) = split(command).parts
    assert not part.assigns
    assert part.words


OPAQUE = [
    "if a; then b; fi", "for x in y; do a; done", "while a; do b; done", "until a; do b; done",
    "case x in y) a;; esac", "select x in y; do a; done", "function f { a; }", "f() { a; }",
    "coproc a", "time a", "! a", "[[ a ]]", "((x))", "echo $((x))", "echo $((1+$(a)))",
    "echo $[1]", "echo $'a'", 'echo $"a"', "echo 'a", 'echo "a', "echo `a", "echo $(a",
    "echo ${a", "(a", "{ a;", "a)", "a; }", "echo a\\", "a\x00b", "a\rb", "a\x1bb", "a\x7fb",
    "a\u0085b", "a\u202eb", "a\udc80", "git\u00a0status", "git\u200bx", "g\u0456t status",
    "eval a", "source a", ". a", "exec a", "trap a EXIT", "alias a=b", "unalias a", "shopt -s x",
    "set -o posix", "set -- a", "enable -f a b", "command eval a", "builtin source a", "$x a",
    "$(a) b", "`a` b", "{a,b}", "*", "~/a", "x[0]=1", "x=(a b)", "a (b)", "(a) b", "{x}>f a",
    "a >", "a > ;", "a <<", "a <<E", "a <<E\nb", "a <<$x\n$x\n", "a <<'x y'\nx y\n",
    "a <<E\nb\\\nE\nE\n", "a <<E\nEE\nE\n", "a <<E 'b\nc'\nE\n", "a <<E \\\nb\nE\n",
    "a $(b <<'E'\nE\nc)", "a $(b <<E\nE\n)", "a >&'f'", "a >&$x", "a >&-x", "echo ${x:=y}",
    "echo ${x[0]}", "echo ${!x}", "echo ${x@P}", "echo ${x:1}", "echo ${x/a/b}", "echo ${ a; }",
    "echo ${x:-'a'}", 'echo "${x:-"a"}"', "echo $\\\n(a)", "a &\\\n& b", "a >\\\nf", "echo !x",
    "a <<E $(b\nc)\nE\n", "echo `a\\\nb`", 'echo "`a \\"b\\"`"', "a;;b", "a;&b", "'' x",
    "\u0435cho x",
]  # fmt: skip


@each_row("command", OPAQUE)
def test_what_cannot_be_read_for_sure_is_opaque(command: str) -> None:
    """R-4.1: in doubt nothing is allowed, and the reason is said."""
    assert split(command).opaque


@each_row(
    "command",
    [
        "if a; then rm x; fi",
        "for i in 1; do rm x; done",
        "while a; do rm x; done",
        "case x in y) rm x;; esac",
        'echo "$(case x in y) rm x;; esac)"',
        "f() { rm x; }; f",
        "function f { rm x; }",
        "! rm x",
        "time rm x",
        "[[ -f x ]] && rm x",
        "(a) rm x",
        "echo ${x[$(rm x)]}",
        "echo ${x:-'$(' $(rm x)}",
        "echo $((1+$(rm x)))",
        "a <<E\n$(rm x)",
        "rm x; echo 'a",
        "rm x\n)",
    ],
)
def test_what_is_opaque_still_shows_the_commands_in_it(command: str) -> None:
    """R-4.1: rules that deny still see what can be seen."""
    assert ["rm", "x"] in shown(command)


def test_the_prefix_ends_at_the_first_word_that_is_not_literal() -> None:
    """R-4.1: rules by the first words count only words that bash does not change."""
    assert prefix(split("git log $x --all").parts[0]) == ("git", "log")
    assert prefix(split("git log '$x' --all").parts[0]) == ("git", "log", "$x", "--all")
    assert prefix(LinePart((Word("*", literal=False),))) == ()


LONG_LINES = [
    "git log " + "a" * 100_000,
    "echo " + "'a' " * 25_000,
    "a;" * 50_000,
    "echo " + "\\a" * 50_000,
    "echo " + "*" * 100_000,
    "echo " + '"$x"' * 25_000,
    "echo " + "$(a) " * 20_000,
    "cat <<E\n" + "x\n" * 50_000,
    "cat " + "<<E " * 25_000,
    "(" * 100_000,
    "$(" * 50_000,
    '"$(' * 33_000,
    "${x:-" * 20_000,
    "`" * 100_000,
    "<" * 100_000,
    "'" * 100_001,
    "x\n" * 50_000,
    "é" * 100_000,
]


@pytest.mark.parametrize("command", LONG_LINES, ids=lambda command: ascii(command[:12]))
def test_long_and_deep_lines_are_read_in_few_steps(command: str) -> None:
    """R-4.1: no command line keeps an agent, or the process, from going on."""
    for length in (4_000, 16_000, len(command)):
        steps(lambda length=length: split(command[:length]), at_most=250_000)  # type: ignore[misc]


def test_what_is_too_deep_or_too_long_is_opaque() -> None:
    """R-4.1: a limit of the reader is never a way around a rule."""
    for command in (
        "(" * 10_000 + ")" * 10_000,
        "echo " + "$(" * 100 + ")" * 100,
        "echo " + "a " * 10_000,
        "echo " + "a" * 300_000,
    ):
        assert split(command).opaque
