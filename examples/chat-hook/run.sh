#!/usr/bin/env bash
# A hook that tells a chat what the team does. The chat is a stand-in on this machine.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
export BULLPEN_HOME="$folder/home"
cp -R "$here/project" "$folder/project"
cd "$folder/project"
python3 "$here/chat.py" .bullpen/hooks/webhook.url >"$folder/chat.log" &
chat=$!
trap 'kill "$chat" 2>/dev/null || true; rm -rf "$folder"' EXIT
for _ in $(seq 100); do
    [ ! -s .bullpen/hooks/webhook.url ] || break
    sleep 0.1
done

# Hooks that come with a project run nothing before somebody says that they may.
bullpen trust .
bullpen run "Write the menu" -t kitchen --driver scripted --script "$here/team.toml" \
    --mode acceptEdits --timeout 120
echo "== What the chat was told:"
cat "$folder/chat.log"
