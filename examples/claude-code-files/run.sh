#!/usr/bin/env bash
# A project with files of Claude Code, used as they are: permissions, hooks and roles.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export BULLPEN_HOME="$folder/home"
cp -R "$here/project" "$folder/project"
cd "$folder/project"
git init -q -b main
git -c user.name=Ann -c user.email=ann@example.org add .
git -c user.name=Ann -c user.email=ann@example.org commit -q -m 'Begin'
export GIT_AUTHOR_NAME=Ann GIT_AUTHOR_EMAIL=ann@example.org
export GIT_COMMITTER_NAME=Ann GIT_COMMITTER_EMAIL=ann@example.org

goal() {
    bullpen run "Write src/slug.sh" -t slugs --driver scripted --script "$here/team.toml" --timeout 60
}

echo "== Files that allow things and run commands do not count before somebody says so."
goal || echo "(exit code $?)"

echo "== Somebody says so."
bullpen trust .

echo "== The team works, and the files decide."
goal

echo "== What they decided for ivy:"
bullpen logs ivy -t slugs --jsonl | jq -r 'select(.kind == "denied" or .kind == "hook") |
    "\(.kind) \(.event // .tool): \(.why // .text)" | split("\n")[0]'
echo "== And for rex:"
bullpen logs rex -t slugs --jsonl | jq -r 'select(.kind == "denied") | "\(.tool): \(.why)"'
echo "== What came of it:"
git log --format=%s
