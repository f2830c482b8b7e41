#!/usr/bin/env bash
# A run of a scripted team, shown in a collector on this machine.
# With a real one, leave collector.py out: bullpen telemetry --otlp http://localhost:4318
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
export BULLPEN_HOME="$folder/home"
mkdir "$folder/work"

echo "== A team works."
(cd "$folder/work" && bullpen run "Greet the world" -t greeters --driver scripted \
    --script "$here/../scripted-team.toml" --mode bypassPermissions --timeout 120 >/dev/null)

echo "== A collector listens."
python3 "$here/collector.py" "$folder/seen.jsonl" >"$folder/port" &
collector=$!
trap 'kill "$collector"; wait "$collector" 2>/dev/null || true; rm -rf "$folder"' EXIT
for _ in $(seq 100); do [ -s "$folder/port" ] && break; sleep 0.1; done

echo "== The run is sent to it, twice: the second time changes nothing."
bullpen telemetry -t greeters --otlp "http://127.0.0.1:$(cat "$folder/port")"
bullpen telemetry -t greeters --otlp "http://127.0.0.1:$(cat "$folder/port")" >/dev/null

echo "== What the collector has:"
python3 - "$folder/seen.jsonl" <<'PYTHON'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
spans = {row["id"]: row for row in rows if "id" in row}
def show(parent, depth):
    for row in spans.values():
        if row["in"] == parent:
            links = f", reads mail of {row['links']}" if row["links"] else ""
            print(f"{'  ' * depth}{row['name']} ({row['ms']} ms{links})")
            show(row["id"], depth + 1)
show("", 0)
print("metrics:", ", ".join(sorted({row["metric"] for row in rows if "metric" in row})))
PYTHON
