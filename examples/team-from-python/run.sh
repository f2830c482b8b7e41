#!/usr/bin/env bash
# A program of yours runs a whole team with the Python API.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

python3 "$here/write_a_book.py" "$folder"
echo "== What the agents made:"
cat "$folder"/chapters/*.md
