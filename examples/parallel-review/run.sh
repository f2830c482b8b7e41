#!/usr/bin/env bash
# Three readers look at one change at the same time, and one review comes of it; no terminal, and the
# exit code decides. The readers are scripted here: with a key, leave --driver scripted out.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export BULLPEN_HOME="$folder/home"
export GIT_AUTHOR_NAME=Ann GIT_AUTHOR_EMAIL=ann@example.org
export GIT_COMMITTER_NAME=Ann GIT_COMMITTER_EMAIL=ann@example.org
mkdir "$folder/parser" && cd "$folder/parser"
git init -q --initial-branch=main .
echo 'print("hello")' >hello.py
git add . && git commit -qm "Begin"
git checkout -q -b louder
echo 'print("HELLO")' >hello.py
git commit -qam "Say it louder"

bullpen init --template review --driver scripted >/dev/null
code=0
bullpen up TEAM.toml --timeout 300 --jsonl >"$folder/review.jsonl" || code=$?
echo "== Tasks:"
bullpen task list
echo "== Reports to the lead:"
bullpen inbox --json | grep '"summary"'
echo "== The review:"
cat REVIEW.md
echo "== Nobody changed the code:"
git status --short --untracked-files=no | wc -l
exit "$code"
