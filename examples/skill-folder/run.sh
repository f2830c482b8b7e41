#!/usr/bin/env bash
# An agent loads a skill folder of its project, and notes something for the next agent of its role.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export BULLPEN_HOME="$folder/home"
cp -R "$here/project" "$folder/project"
cd "$folder/project"

# A role with a memory allows something, so the project has to be trusted.
bullpen trust .
bullpen team create paper
bullpen spawn sue "Write the notes" -t paper --role scribe --driver scripted \
    --script "$here/team.toml" --mode dontAsk --allow 'Write(NOTES.md)' 2>&1
for _ in $(seq 300); do
    ! bullpen logs sue -t paper --jsonl | grep -q '"kind": *"end"' || break
    sleep 0.2
done
echo "== What sue did:"
bullpen logs sue -t paper
echo "== What the next scribe is told:"
cat .bullpen/agent-memory-local/scribe/MEMORY.md
bullpen stop --all -t paper
