"""Diffs as lines with numbers, from git and from one edit."""

from __future__ import annotations

from bullpen.view.diff import LINES_MAX, DiffLine, edit_diff, edit_lines, parse_diff, total

GIT = """\
diff --git a/src/lex.py b/src/lex.py
index 1111111..2222222 100644
--- a/src/lex.py
+++ b/src/lex.py
@@ -10,3 +10,4 @@ def lex(text):
 one
--- two
+++ two
+three
 four
@@ -30 +31 @@
-old
+new
\\ No newline at end of file
"""


def test_a_git_diff_has_numbered_lines_also_where_they_look_like_headers() -> None:
    (file,) = parse_diff(GIT)
    assert (file.path, file.added, file.removed) == ("src/lex.py", 3, 2)
    assert file.counts == "+3 -2"
    assert file.lines[0] == DiffLine("hunk", None, None, "@@ -10,3 +10,4 @@ def lex(text):")
    assert file.lines[1:6] == (
        DiffLine("context", 10, 10, "one"),
        DiffLine("removed", 11, None, "-- two"),
        DiffLine("added", None, 11, "++ two"),
        DiffLine("added", None, 12, "three"),
        DiffLine("context", 12, 13, "four"),
    )
    assert file.lines[-1] == DiffLine("added", None, 31, "new")
    assert file.note == "no newline at the end"


def test_a_git_diff_says_what_became_of_files() -> None:
    files = parse_diff(
        "diff --git a/a b.txt b/a b.txt\nnew file mode 100644\nindex 0..1\n--- /dev/null\n"
        "+++ b/a b.txt\t\n@@ -0,0 +1 @@\n+x\n"
        "diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n"
        "@@ -1 +0,0 @@\n-x\n"
        'diff --git "a/\\303\\244\\t.py" "b/\\303\\244\\t.py"\nold mode 100644\nnew mode 100755\n'
        "diff --git a/old.py b/new.py\nsimilarity index 100%\nrename from old.py\n"
        "rename to new.py\n"
        "diff --git a/p.png b/p.png\nindex 1..2 100644\nBinary files a/p.png and b/p.png differ\n"
    )
    assert [(file.path, file.note) for file in files] == [
        ("a b.txt", "new file"),
        ("gone", "deleted"),
        ("ä\t.py", "mode changed"),
        ("new.py", "renamed from old.py"),
        ("p.png", "binary"),
    ]
    assert total(files) == (1, 1)


def test_what_is_no_diff_has_no_files() -> None:
    assert parse_diff("") == ()
    assert parse_diff("fatal: bad revision\n") == ()


def test_control_characters_of_a_file_and_of_its_name_are_escaped() -> None:
    text = (
        'diff --git "a/\\033[31m.py" "b/\\033[31m.py"\n--- /dev/null\n+++ "b/\\033[31m.py"\n'
        "@@ -0,0 +1 @@\n+\x1b]0;owned\x07\n"
    )
    (file,) = parse_diff(text)
    assert file.path == "\\x1b[31m.py"
    assert file.lines[-1].text == "\\x1b]0;owned\\x07"


def test_a_long_diff_is_cut_and_says_so_but_counts_everything() -> None:
    rows = "".join(f"+{n}\n" for n in range(LINES_MAX + 10))
    text = f"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1,{LINES_MAX + 10} @@\n{rows}"
    (file,) = parse_diff(text)
    assert (file.added, len(file.lines), file.note) == (LINES_MAX + 10, LINES_MAX, "11 more lines")


def test_an_edit_is_compared_line_by_line() -> None:
    old, new = "a\nb\nc\n", "a\nB\nc\n"
    assert edit_diff("x.py", old, new, first=7).lines == (
        DiffLine("context", 7, 7, "a"),
        DiffLine("removed", 8, None, "b"),
        DiffLine("added", None, 8, "B"),
        DiffLine("context", 9, 9, "c"),
    )
    unknown = edit_diff("x.py", old, new)
    assert unknown.counts == "+1 -1"
    assert {(line.old, line.new) for line in unknown.lines} == {(None, None)}


def test_far_parts_of_an_edit_are_hunks() -> None:
    old = [str(n) for n in range(40)]
    new = ["first", *old[1:-1], "last"]
    lines = edit_lines("\n".join(old), "\n".join(new), first=1)
    assert [line.kind for line in lines].count("hunk") == 2
    assert len(lines) < 20


def test_a_huge_edit_is_not_compared() -> None:
    old, new = "a\nb", "\n".join(str(n % 7) for n in range(5_000))
    found = edit_diff("x", old, new)
    assert found.added == 5_000 and found.note == f"{5_000 + 2 - LINES_MAX} more lines"


def test_an_edit_of_only_the_last_line_break_says_so() -> None:
    assert edit_diff("x", "a", "a\n").note == "only the line break at the end"
