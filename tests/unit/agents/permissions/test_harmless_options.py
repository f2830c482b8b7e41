"""The words that an allow rule with an open end covers: those known to be harmless."""

from __future__ import annotations

import pytest

from bullpen.agents.permissions.shell.harmless.judge import ALL_FILES, first_unknown
from bullpen.agents.permissions.shell.parse import split
from support.rows import each_row

RISKY = [
    ("git -c core.pager=x log", "-c"),
    ("git -ccore.pager=x log", "-ccore.pager=x"),
    ("git --exec-path=x log", "--exec-path=x"),
    ("git --config-env=a=b log", "--config-env=a=b"),
    ("git -C x log", "-C"),
    ("git --git-dir x log", "--git-dir"),
    ("git log --output=x", "--output=x"),
    ("git log --outp x", "--outp"),
    ("git log -p --ext-diff", "--ext-diff"),
    ("git fetch --upload-pack=x", "--upload-pack=x"),
    ("git clone ext::sh", "ext::sh"),
    ("git grep -Ox y", "-Ox"),
    ("git rebase -x y", "-x"),
    ("git archive -o x HEAD", "-o"),
    ("git diff /dev/null ../x", "/dev/null"),
    ("git diff --no-index a b", "--no-index"),
    ("git config a b", "a"),
    ("git bisect run x", "run"),
    ("git log *", "*"),
    ("git log $x", "$x"),
    ('git log "$x"', "$x"),
    ("git log a$x", "a$x"),
    ("git log {-a,b}", "{-a,b}"),
    ("git log $(a)", "$(a)"),
    ("git $x", "$x"),
    ("find . -exec a ';'", "-exec"),
    ("find . -delete", "-delete"),
    ("find . -fprintf a b", "-fprintf"),
    ("fd -x a", "-x"),
    ("xargs a", "xargs"),
    ("env -S a", "env"),
    ("timeout 5 a", "timeout"),
    ("tar tf a --checkpoint-action=exec=b c", "--checkpoint-action=exec=b"),
    ("tar cf a c", "a"),
    ("tar -xf a --to-command b", "-xf"),
    ("tar -tf a --to-command b", "--to-command"),
    ("tar -I a -cf b c", "-I"),
    ("tar cIf a b c", "cIf"),
    ("sort -o a b", "-o"),
    ("sort -ro a b", "-ro"),
    ("sort --compress-prog=a b", "--compress-prog=a"),
    ("sed -i s/a/b/ c", "-i"),
    ("sed -ni s/a/b/ c", "-ni"),
    ("sed 's/a/b/w c' d", "s/a/b/w c"),
    ("sed 's/a/b/e' d", "s/a/b/e"),
    ("sed '1e a' d", "1e a"),
    ("sed -e p -e 'w c' d", "w c"),
    ("sed -f a b", "-f"),
    ("sed $x b", "$x"),
    ("awk 'BEGIN { system(\"a\") }'", 'BEGIN { system("a") }'),
    ("awk '{ print > \"a\" }' b", '{ print > "a" }'),
    ("awk -f a b", "-f"),
    ("awk -F -F 'BEGIN{print > \"a\"}' b", "-F"),
    ("rg --pre a b", "--pre"),
    ("rg --pre=a b", "--pre=a"),
    ("ssh -oProxyCommand=a b", "-oProxyCommand=a"),
    ("rsync -e a b c", "-e"),
    ("make SHELL=a", "SHELL=a"),
    ("make -f a", "-f"),
    ("npm test --script-shell=a", "--script-shell=a"),
    ("npm test -script-shell=a", "-script-shell=a"),
    ("pip install --index-url a b", "--index-url"),
    ("python -m pytest --junitxml=a", "python"),
    ("python3.12 -c a", "-c"),
    ("pytest --basetemp=a", "--basetemp=a"),
    ("pytest -k @a", "-k"),
    ("pytest -- @a", "@a"),
    ("pytest -- -pa", "-pa"),
    ("find -- . -delete", "--"),
    ("git apply a", "git"),
    ("git clone --depth 1 ext::a", "ext::a"),
    ("make -j2 SHELL=a", "SHELL=a"),
    ("npm test ---script-shell=a", "---script-shell=a"),
    ("npm test -- --globalSetup=a", "--globalSetup=a"),
    ("dotnet test -- a=b", "a=b"),
    ("sudo git log", "sudo"),
    ("watch ls", "watch"),
    ("curl -o a b", "-o"),
    ("uniq a b", "b"),
    ("printf -v a b", "-v"),
    ("export a=b", "export"),
    ("hash -p a b", "hash"),
    ("test -v 'a[$(b)]'", "-v"),
    ("/usr/bin/git log --output=x", "--output=x"),
]


@each_row(("command", "word"), RISKY)
def test_a_word_with_which_a_program_does_more_is_found(command: str, word: str) -> None:
    """R-4.1: an allow rule for a program is no rule for what it can be made to run or write."""
    assert first_unknown(split(command).parts[-1]) == word


@each_row(
    "command",
    [
        "git status --short",
        "git log --oneline -5 HEAD~3 -- src/*.py",
        "git log -p -S x --author=a --format='%h %s'",
        "git log HEAD@{1}",
        "git --no-pager diff HEAD",
        "git commit -m 'x --output y'",
        "git switch -c x",
        "find . -name '*.py' -type f",
        "sed -n '1,20p' a",
        "sed 's/a/b/g' c",
        "sed -E -e 's,a,b,' -e '3d' c",
        "awk '{ print $1 }' a",
        "sort -ru -k 2 a",
        "rg -n --glob '*.py' x src",
        "tar tf a.tar",
        "make test",
        "npm test",
        "npm run build",
        "pytest -q -x tests --cov=src -k 'a and b'",
        "python -m pytest -p x",
        "python script.py --output=x",
        "pytest tests/a.py::test_b",
        "uniq -c a",
        "ls *",
        "echo $x",
        "cat a",
        "printf '%s' a",
    ],
)
def test_what_programs_are_listed_for_is_not_held_up(command: str) -> None:
    """R-4.1: the table is about exceptions; plain use passes."""
    assert first_unknown(split(command).parts[-1], said=1, files=ALL_FILES) is None


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("git log --output=x y", 3),
        ("git -c a=b log y", 3),
        ("git config a b", 4),
        ("find . -delete -print", 3),
        ("timeout 60 npm test", 3),
        ("env A=b npm test", 3),
        ("xargs cat a", 2),
        ("sed -i s/a/b/ c", 3),
    ],
)
def test_what_a_rule_names_itself_is_meant(command: str, said: int) -> None:
    """R-4.1: a rule that goes as far as the option allows the option."""
    part = split(command).parts[-1]
    assert first_unknown(part) is not None
    assert first_unknown(part, said=said) is None


@pytest.mark.parametrize(
    ("command", "said"),
    [("timeout 60 rm x", 2), ("env A=b rm x", 2), ("sudo -u x rm y", 3), ("xargs -n 1 rm", 3)],
)
def test_a_rule_that_ends_before_the_program_does_not_name_it(command: str, said: int) -> None:
    """R-4.1: `Bash(timeout 60:*)` does not say what is to be run."""
    assert first_unknown(split(command).parts[-1], said=said) is not None
