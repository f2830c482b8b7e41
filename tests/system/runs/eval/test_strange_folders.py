"""Folders and files of strangers that are imported: what they may not read, write or break."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from bullpen import Conflict, Invalid
from bullpen.runs.eval.importers.from_commits import MakeRequest, make_suite
from bullpen.runs.eval.importers.import_suite import Form, ImportRequest, import_suite
from bullpen.runs.eval.importers.new_suite import MadeSuite
from bullpen.runs.eval.suite import read_suite
from support.evals.suites import RIGHT, put

SECRET = "my-own-secret"

HARBOR = {
    "good/instruction.md": "Make it.",
    "good/tests/test.sh": "exit 0\n",
    "good/environment/Dockerfile": "FROM x\nCOPY . /app/\n",
    "good/environment/a.txt": "a",
}


def imported(form: Form, folder: Path, **more: object) -> MadeSuite:
    request = ImportRequest(form, folder / "source", folder / "out", **more)  # type: ignore[arg-type]
    return import_suite(request)


def harbor(folder: Path, files: dict[str, str]) -> MadeSuite:
    put(folder / "source", HARBOR | files)
    return imported("harbor", folder)


def everything(folder: Path) -> str:
    return "".join(
        path.read_text("utf-8", "replace") for path in folder.rglob("*") if path.is_file()
    )


@pytest.mark.parametrize(
    "target",
    ["/app/../../../../../../evil.txt", "../../../../../evil.txt", "/apple/../x", "/app/.git/x"],
)
def test_an_image_puts_no_file_outside_of_its_task(tmp_path: Path, target: str) -> None:
    made = harbor(
        tmp_path,
        {
            "bad/instruction.md": "Make it.",
            "bad/tests/test.sh": "exit 0\n",
            "bad/environment/Dockerfile": f"FROM x\nCOPY a.txt {target}\n",
            "bad/environment/a.txt": SECRET,
        },
    )
    assert made.tasks == ("good",)
    assert [each.name for each in made.skipped] == ["bad"]
    assert SECRET not in everything(tmp_path / "out")
    assert not list(tmp_path.rglob("evil.txt"))


@pytest.mark.parametrize(
    "link", ["instruction.md", "tests", "tests/test.sh", "environment", "solution", "."]
)
def test_a_link_in_a_strangers_folder_shows_nothing_of_ours(tmp_path: Path, link: str) -> None:
    ours = tmp_path / "ours"
    put(
        ours,
        {
            "instruction.md": SECRET,
            "test.sh": SECRET,
            "a.txt": SECRET,
            "solve.sh": SECRET,
            "tests/test.sh": SECRET,
            "environment/a.txt": SECRET,
            "environment/Dockerfile": "FROM x\nCOPY . /app/\n",
            "Dockerfile": "FROM x\nCOPY . /app/\n",
        },
    )
    files = {
        "bad/instruction.md": "Make it.",
        "bad/tests/test.sh": "exit 0\n",
        "bad/environment/Dockerfile": "FROM x\nCOPY . /app/\n",
        "bad/solution/solve.sh": "exit 0\n",
    }
    bad = tmp_path / "source" / "bad"
    put(tmp_path / "source", {} if link == "." else files)
    place = bad if link == "." else bad / link
    if place.is_dir():
        subprocess.run(["rm", "-r", str(place)], check=True)
    place.unlink(missing_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    inside = "" if link == "." else link
    target = ours / ("test.sh" if link == "tests/test.sh" else inside)
    place.symlink_to(target if target.exists() else ours)
    harbor(tmp_path, {})
    assert SECRET not in everything(tmp_path / "out")


def test_an_instruction_in_another_encoding_is_listed(tmp_path: Path) -> None:
    put(tmp_path / "source", {"bad/tests/test.sh": "", "bad/instruction.md": ""})
    (tmp_path / "source" / "bad" / "instruction.md").write_bytes(b"\xff\xfe")
    made = harbor(tmp_path, {})
    assert (made.tasks, [each.name for each in made.skipped]) == (("good",), ["bad"])


def test_files_that_an_image_copies_and_that_are_not_there_are_said(tmp_path: Path) -> None:
    made = harbor(
        tmp_path,
        {
            "bad/instruction.md": "Make it.",
            "bad/tests/test.sh": "",
            "bad/environment/Dockerfile": "FROM x\nCOPY *.py /app/\n",
        },
    )
    assert [(each.name, "*.py" in each.why) for each in made.skipped] == [("bad", True)]


def test_a_file_in_place_of_a_folder_is_a_mistake_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "source").write_text("")
    for form in ("harbor", "cooperbench"):
        with pytest.raises(Invalid, match="is no folder"):
            imported(form, tmp_path)
    put(tmp_path / "other" / "source", HARBOR)
    (tmp_path / "other" / "out").write_text("")
    with pytest.raises(Conflict, match="is not empty"):
        imported("harbor", tmp_path / "other")


def repository(folder: Path, files: dict[str, str], subject: str = "First") -> str:
    put(folder, files)
    who = ("-c", "user.name=x", "-c", "user.email=x@y")
    if not (folder / ".git").exists():
        subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
    for words in (("add", "-A"), (*who, "commit", "-q", "-m", subject)):
        subprocess.run(["git", "-C", str(folder), *words], check=True)
    asked = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


PATCH = """\
diff --git a/tests/test_a.py b/tests/test_a.py
new file mode 100644
--- /dev/null
+++ b/tests/test_a.py
@@ -0,0 +1 @@
+assert True
"""


def instance(base: str, **more: object) -> dict[str, object]:
    return {
        "instance_id": "o__r-1",
        "repo": "o/r",
        "base_commit": base,
        "problem_statement": "Make it.",
        "test_patch": PATCH,
        **more,
    }


def swe(folder: Path, *rows: dict[str, object]) -> MadeSuite:
    (folder / "source").write_text("\n".join(map(json.dumps, rows)))
    return imported("swe-bench", folder, clones=folder / "clones")


def test_an_instance_names_no_repository_outside_of_the_clones(tmp_path: Path) -> None:
    private = repository(tmp_path / "private" / "r", {"a.py": SECRET})
    base = repository(tmp_path / "clones" / "r", {"a.py": "a = 1\n"})
    repository(tmp_path / "inner", {"a.py": SECRET})
    rows = [
        instance(private, instance_id=f"bad-{number}", repo=repo)
        for number, repo in enumerate(
            ("../private/r", str(tmp_path / "private" / "r"), "..", "x/..", "o/../inner", ".")
        )
    ]
    made = swe(tmp_path, instance(base), *rows)
    assert made.tasks == ("o_r-1",)
    assert len(made.skipped) == 6


def test_one_bad_instance_is_listed_and_the_others_are_imported(tmp_path: Path) -> None:
    base = repository(tmp_path / "clones" / "r", {"a.py": "a = 1\n"})
    made = swe(
        tmp_path,
        instance("0" * 40, instance_id="no-commit"),
        instance(base, instance_id="no-text", problem_statement="\ud800"),
        instance(base, instance_id="no-patch", test_patch="\ud800"),
        instance(base, instance_id="emoji-\N{ROCKET}", problem_statement="\N{ROCKET}"),
        instance(base),
    )
    assert made.tasks == ("emoji", "o_r-1")
    assert {each.name for each in made.skipped} == {"no-commit", "no-text", "no-patch"}
    assert {task.title for task in read_suite(made.folder).tasks} == {"emoji-\N{ROCKET}", "o__r-1"}


def test_a_patch_of_tests_that_makes_a_link_shows_nothing_of_ours(tmp_path: Path) -> None:
    put(tmp_path, {"secret": SECRET})
    base = repository(tmp_path / "clones" / "r", {"a.py": "a = 1\n"})
    link = PATCH.replace("100644", "120000").replace("+assert True", f"+{tmp_path}/secret")
    swe(
        tmp_path,
        instance(base),
        instance(base, instance_id="bad", test_patch=link + "\\ No newline at end of file\n"),
    )
    assert SECRET not in everything(tmp_path / "out")


def test_tasks_whose_names_are_alike_are_all_kept(tmp_path: Path) -> None:
    base = repository(tmp_path / "clones" / "r", {"a.py": "a = 1\n"})
    long = "x" * 70
    made = swe(tmp_path, *(instance(base, instance_id=f"{long}-{number}") for number in "123"))
    assert len(made.tasks) == len(set(made.tasks)) == 3
    assert {task.title for task in read_suite(made.folder).tasks} == {
        f"{long}-{number}" for number in "123"
    }


def test_links_in_a_dataset_of_pairs_show_nothing_of_ours(tmp_path: Path) -> None:
    base = repository(tmp_path / "clones" / "r", {"a.py": "a = 1\n"})
    dockerfile = f"FROM x\nRUN git clone https://github.com/o/r.git && git checkout {base}\n"
    dataset = tmp_path / "source" / "r_task" / "task1"
    put(dataset, {"Dockerfile": dockerfile})
    for name in ("feature1", "feature2", "feature3"):
        put(dataset / name, {"feature.md": name, "tests.patch": PATCH, "feature.patch": ""})
    put(tmp_path, {"secret": SECRET})
    (dataset / "feature3" / "feature.md").unlink()
    (dataset / "feature3" / "feature.md").symlink_to(tmp_path / "secret")
    made = imported("cooperbench", tmp_path, clones=tmp_path / "clones")
    assert (len(made.skipped), len(made.tasks)) == (2, 1), made
    assert SECRET not in everything(tmp_path / "out")
    (dataset / "combined.patch").symlink_to(tmp_path / "secret")
    with pytest.raises(Invalid, match=r"combined\.patch leads out of it"):
        imported("cooperbench", tmp_path, clones=tmp_path / "clones")


def test_a_commit_with_an_emoji_makes_a_suite_that_can_be_read(tmp_path: Path) -> None:
    source = tmp_path / "source"
    repository(source, {"adder.py": "a = 1\n"})
    repository(
        source, {"adder.py": RIGHT, "tests/test_add.py": "x = 1\n"}, "Add \N{ROCKET} \x7f fast"
    )
    made = make_suite(MakeRequest(source, tmp_path / "suite", "true"))
    assert read_suite(made.folder).tasks[0].title == "Add \N{ROCKET} \x7f fast"


@pytest.mark.parametrize("value", ["inf", "nan", "0", "-1"])
def test_a_suite_without_a_deadline_is_refused(tmp_path: Path, value: str) -> None:
    put(
        tmp_path,
        {
            "suite.toml": 'name = "s"\n',
            "tasks/a/task.toml": f'test = "true"\ntest_timeout_s = {value}\n',
            "tasks/a/instructions.md": "Do.",
            "tasks/a/tests/t": "",
            "tasks/a/repo/a": "",
        },
    )
    with pytest.raises(Invalid, match="test_timeout_s"):
        read_suite(tmp_path)
