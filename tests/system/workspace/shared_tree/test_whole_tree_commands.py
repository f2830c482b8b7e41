"""Commands that take others' edits, in every spelling, through the real gate and really run."""

from __future__ import annotations

import shutil

from bullpen.agents.contracts.call import Call
from bullpen.protocol.names import LEAD
from support.git.repositories import git

from .shared_stage import ANNS, Stage, with_edits

GIT = shutil.which("git") or "/usr/bin/git"

REFUSED = [
    "git reset --hard",
    "git reset --hard HEAD",
    "git reset --har HEAD~1",
    "git reset --merge",
    "git reset --keep HEAD~1",
    "git reset",
    "git reset -q HEAD -- docs",
    "git checkout -- .",
    "git checkout .",
    "git checkout -- src/ann.py",
    "git checkout src/ann.py",
    "git checkout HEAD -- src",
    "git checkout other -- 'src/*.py'",
    "git checkout -f",
    "git checkout other",
    "git checkout -f other --",
    "git checkout -b mine",
    "git switch other",
    "git switch -c mine",
    "git switch --discard-changes other",
    "git restore .",
    "git restore src/ann.py src/bob.py",
    "git restore --staged docs/ann.md",
    "git restore -SW :/",
    "git restore --source=other -- 'src/*.py'",
    "git restore --pathspec-from-file=list",
    "git clean -fd",
    "git clean -fdx",
    "git clean -fX",
    "git clean -f src",
    "git clean -d -f -e keep",
    "git stash",
    "git stash push -m wip",
    "git stash -u",
    "git stash save wip",
    "git stash push -- src",
    "git stash --all",
    "git stash pop",
    "git stash apply",
    "git stash drop",
    "git stash clear",
    "git stash branch mine",
    "git add -A",
    "git add .",
    "git add -u",
    "git add --all src",
    "git add -f ann.log",
    "git add src/ann.py",
    "git commit -am wip",
    "git commit -a -m wip",
    "git commit -m wip",
    "git commit --amend --no-edit",
    "git commit -m wip src",
    "git rm -rf src",
    "git rm -f src/ann.py",
    "git rm --cached docs/ann.md",
    "git mv src/ann.py src/moved.py",
    "git rebase other",
    "git rebase --autostash other",
    "git merge other",
    "git pull . other",
    "git cherry-pick other",
    "git revert --no-edit HEAD",
    "git am < x.patch",
    "git gc --prune=now",
    "git -c gc.pruneExpire=now gc",
    "git prune --expire=now",
    "git reflog expire --expire=now --all",
    "git repack -a -d",
    "git update-ref -d refs/bullpen/alpha/cid/1",
    "git update-ref HEAD other",
    "git branch -D bullpen/alpha/cid",
    "git branch -f bullpen/alpha/cid other",
    "git worktree remove --force ../cids",
    "git -C ../cids reset --hard",
    "cd ../cids && git clean -fdx",
    # The same, said in other ways.
    "git -C . reset --hard",
    "git -C src checkout -- .",
    "git -c core.pager=cat --no-pager reset --hard",
    "git --work-tree=. checkout -f",
    "git --git-dir .git --work-tree . clean -fd",
    "LC_ALL=C git reset --hard",
    "GIT_DIR=.git GIT_WORK_TREE=. git checkout -- src/bob.py src",
    "command git reset --hard",
    "env git reset --hard",
    "env -u NAME git reset --hard",
    "env -C src git checkout -- .",
    f"{GIT} reset --hard",
    "sh -c 'git reset --hard'",
    'bash -ec "git checkout -- ."',
    "sh -c 'cd src && git checkout -- .'",
    "eval git reset --hard",
    "eval 'git reset --hard'",
    "cd src && git checkout -- .",
    "cd src; git checkout -- ann.py",
    "(cd src; git clean -fd)",
    "{ git stash; }",
    "true && git stash && true",
    "false || git stash",
    "git status; git reset --hard; git log",
    "ls src | xargs -I{} git checkout -- src/{}",
    "printf 'src/ann.py' | xargs git checkout --",
    "find . -name '*.py' -exec git checkout -- {} +",
    "timeout 10 git stash",
    "nohup nice -n 5 git reset --hard",
    "git undo",
    "git undo HEAD~1",
    "git -c alias.z='reset --hard' z",
    "git zap",
    'echo "$(git stash)"',
    "echo `git reset --hard`",
    "if true; then git reset --hard; fi",
    "for each in 1; do git stash; done",
    "git reset --hard & wait",
    "git diff > x.patch && git checkout -- .",
    "g''it re\"set\" --hard",
    "git \\\n reset --hard",
    "git reset --hard # only mine",
]

OWNED = [
    "rm src/ann.py",
    "rm -f -- src/ann.py",
    "rm -rf src",
    "rm src/*.py",
    "mv src/ann.py src/gone.py",
    "mv src/bob.py src/ann.py",
    "mv -t src docs/ann.md",
    "cp src/bob.py src/ann.py",
    "cp docs/../src/ann.py docs/ann.md",
    "ln -sf bob.py src/ann.py",
    "echo x > src/ann.py",
    "echo x >> src/ann.py",
    "cat > src/ann.py <<'E'\nx\nE",
    "echo x | tee src/ann.py",
    "sed -i s/ann/x/ src/ann.py",
    "sed -i.bak -e s/ann/x/ src/ann.py",
    "truncate -s 0 src/ann.py",
    "touch src/ann.py",
    "chmod 600 src/ann.py",
    "cd src && rm ann.py",
    "sh -c 'rm src/ann.py'",
    "true && { rm src/ann.py; }",
    "timeout 5 rm src/ann.py",
]

TAKING = [
    "git reset --hard",
    "git checkout -- .",
    "git restore .",
    "git clean -fdx",
    "git stash",
    "git rm -rf src",
    "git reset",
    "git -C src checkout -- .",
    "git undo",
    "git zap",
    "find . -name '*.py' -exec git checkout -- {} \\;",
    "git checkout -f other --",
    *["rm src/ann.py", "mv src/bob.py src/ann.py", "echo x > src/ann.py"],
]

KEPT = [
    "./wipe.sh",
    "sh wipe.sh",
    "bash ./wipe.sh",
    ". ./wipe.sh",
    "python3 wipe.py",
    "python3 -c \"import os; os.system('git reset -q --hard')\"",
    "make wipe",
    "G=git; $G reset --hard",
    "$(echo git) reset --hard",
    'x="reset --hard"; git $x',
    '"$(git --exec-path)/git-reset" --hard',
    "git config alias.late 'reset --hard' && git late",
    "find . -name '*.py' -delete",
    "printf 'src/ann.py' | xargs rm",
    "perl -e 'unlink \"src/ann.py\"'",
    "dd if=/dev/null of=src/ann.py",
    "sh <<'E'\ngit reset --hard\nE",
    "echo 'git reset --hard' | sh",
    # Commands of git that are not read: they run after everything of others was kept.
    "git read-tree -u --reset HEAD",
    "git checkout-index -f -a",
    "git bisect start HEAD HEAD~1",
    "git symbolic-ref HEAD refs/heads/other",
    "git sparse-checkout set docs",
    "git update-index --force-remove docs/ann.md",
    "git read-tree --empty",
    "git -c alias.bisect=status bisect start HEAD HEAD~1",
]

RUNS = [
    "git status",
    "git st",
    "git diff",
    "git log --oneline -- src/ann.py",
    "git show HEAD:src/ann.py",
    "git fetch",
    "git stash list",
    "git branch mine",
    "git branch -D other",
    "git worktree list",
    "git clean -nd",
    "git reset --soft HEAD",
    "git reset -- src/bob.py",
    "git restore src/bob.py",
    "git restore -- 'src/bob*'",
    "git checkout -- src/bob.py",
    "git checkout src/bob.py",
    "git add src/bob.py",
    "git add src/bob.py && git commit -m mine -- src/bob.py",
    "git commit -m 'git reset --hard' -- src/bob.py",
    "git stash push -- src/bob.py",
    "git rm -f src/bob.py",
    "git mv src/bob.py src/bobs.py",
    "git rm --cached src/bob.py",
    "git -C src restore bob.py",
    "cd src && git restore bob.py",
    "sh -c 'git restore src/bob.py'",
    "git clean -fd build",
    "git gc",
    "git reflog",
    'echo "git reset --hard"',
    "grep -rn 'git stash' src",
    "sed -n 1p src/ann.py",
    "cat src/ann.py > src/bob.py",
    "rm src/bob.py",
    "mv src/bob.py src/bobs.py",
    "sed -i s/bob/rob/ src/bob.py",
    "mkdir -p build && ls src | head -1",
    "echo x > src/another.py",
    "cd ../elsewhere && git reset --hard && git clean -fdx",
    "git -C ../elsewhere stash -u",
]


async def outcomes(stage: Stage, commands: list[str], *, expected: str) -> dict[str, object]:
    """The commands that came out otherwise than they should, each on the same state."""
    wrong: dict[str, object] = {}
    await with_edits(stage)
    stage.remember()
    for command in commands:
        outcome = await stage.tried("bob", command)
        lost = stage.lost(ANNS)
        if outcome != expected or lost or not stage.staged_is_safe():
            wrong[command] = (outcome, lost, stage.staged_is_safe())
        if outcome in {"runs", "kept"}:
            stage.go_back()
    return wrong


async def test_r_8c_what_would_take_anothers_edits_is_refused(stage: Stage) -> None:
    """R-8c: two agents; one runs each command; the other's edits survive."""
    assert await outcomes(stage, REFUSED, expected="others_edits") == {}


async def test_r_8c_a_path_that_another_works_on_is_not_written(stage: Stage) -> None:
    assert await outcomes(stage, OWNED, expected="path_owned") == {}


async def test_r_8c_before_what_nobody_can_read_the_others_edits_are_kept(stage: Stage) -> None:
    """R-8c: what a script does is not known before; the edits can be got back byte for byte."""
    assert await outcomes(stage, KEPT, expected="kept") == {}


async def test_r_8c_what_touches_only_ones_own_edits_is_run(stage: Stage) -> None:
    git(stage.top.parent, "init", "-q", "elsewhere")
    assert await outcomes(stage, RUNS, expected="runs") == {}


async def test_r_8c_an_agent_alone_in_its_tree_is_not_hindered(stage: Stage) -> None:
    await with_edits(stage)
    await stage.team.agents.end("ann", "stopped", by=LEAD, nonce="nonce-ann", cause="done")
    for command in [*REFUSED, *OWNED, *KEPT, *RUNS]:
        await stage.desks["bob"].permit(Call("Bash", {"command": command}, "run"))
    assert stage.kept("bob") == []


async def test_these_commands_do_take_edits_where_nobody_stops_them(stage: Stage) -> None:
    """What is refused is refused for a reason: without the gate ann loses something."""
    await with_edits(stage)
    stage.remember()
    harmless = []
    for command in TAKING:
        stage.really(command)
        if not stage.lost(ANNS) and stage.staged_is_safe():
            harmless.append(command)
        stage.go_back()
    assert harmless == []


def test_the_table_has_the_promised_length() -> None:
    assert len({*REFUSED, *OWNED, *KEPT}) >= 60
