#!/usr/bin/env bash
# A program that has never heard of Bullpen works in one of its teams, by the published files.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export BULLPEN_HOME="$folder/home"
cd "$folder"

bullpen team create letters >/dev/null
bullpen member add harry >/dev/null
bullpen task add "write the letter" >/dev/null
bullpen task add "send the letter" --blocked-by 1 >/dev/null

python3 "$here/harness.py" letters harry

echo "== What Bullpen sees of it:"
bullpen task list
bullpen inbox --json | grep '"text"'
bullpen send harry "Thank you."
bullpen events --after 4
bullpen doctor
echo "== What it made:"
cat 1.txt 2.txt
