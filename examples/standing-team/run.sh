#!/usr/bin/env bash
# A team that stays: everybody is killed in the middle of the work, and `bullpen up` goes on.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
export BULLPEN_HOME="$folder/home"
trap 'bullpen down -t shop >/dev/null 2>&1 || true; rm -rf "$folder"' EXIT
export GIT_AUTHOR_NAME=Ann GIT_AUTHOR_EMAIL=ann@example.org
export GIT_COMMITTER_NAME=Ann GIT_COMMITTER_EMAIL=ann@example.org
mkdir -p "$folder/shop/tasks" && cd "$folder/shop"
cp "$here/TEAM.toml" "$here/script.toml" .
printf -- '---\nneeds: [kitchen]\n---\nBake the bread\n' >tasks/1-bread.md
printf -- '---\nneeds: [letters]\n---\nWrite the bill\n' >tasks/2-bill.md
printf -- '---\nneeds: [kitchen]\nafter: [1-bread]\n---\nSlice the bread\n' >tasks/3-slices.md
git init -q --initial-branch=main . && git add . && git commit -qm "Begin"

bullpen up TEAM.toml >"$folder/up.log" 2>&1 &
up=$!
# A task that somebody is at is a file that says so: the files of a team are there for scripts, too.
for _ in $(seq 600); do
    if grep -qs in_progress "$BULLPEN_HOME"/tasks/shop/*.json; then break; fi
    kill -0 "$up" 2>/dev/null || { cat "$folder/up.log"; exit 1; }
    sleep 0.1
done
agents=$(bullpen ps -t shop --json | sed -n 's/^ *"pid": *\([0-9]*\).*/\1/p')
# shellcheck disable=SC2086 # several words on purpose
kill -9 "$up" $agents
wait "$up" 2>/dev/null || echo "== Everybody was killed with -9 in the middle of the work."

bullpen up TEAM.toml --timeout 120 >"$folder/up.log" 2>&1 || { cat "$folder/up.log"; exit 1; }
echo "== The same command again, and the same team went on:"
bullpen task list
echo "== A task for another day, and the team is there again:"
printf -- '---\nneeds: [letters]\n---\nSend the bill\n' >tasks/4-post.md
bullpen up TEAM.toml --timeout 120 >"$folder/up.log" 2>&1 || { cat "$folder/up.log"; exit 1; }
bullpen task list
echo "== On the branch, each once:"
git ls-files done
