#!/usr/bin/env bash
# An agent asks, a phone gets the notice, and one tap answers. The phone is a stand-in on this machine.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
export BULLPEN_HOME="$folder/home"
cp "$here/TEAM.toml" "$here/cook.toml" "$folder"
cd "$folder"
echo "Soup, bread, pears" >menu.txt
python3 "$here/phone.py" "$folder/port" >"$folder/phone.log" &
phone=$!
web=
trap 'kill "$phone" $web 2>/dev/null || true; wait "$phone" $web 2>/dev/null || true; rm -rf "$folder"' EXIT
for _ in $(seq 200); do
    [ ! -s "$folder/port" ] || break
    sleep 0.1
done

# Where notices go, and where the phone reaches the dashboard: on your machine, a tunnel with TLS.
PHONE="ntfy://127.0.0.1:$(cat "$folder/port")/kitchen"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export PHONE BULLPEN_PUBLIC_URL="http://127.0.0.1:$port"

bullpen up TEAM.toml --timeout 120 >"$folder/up.log" 2>&1 &
up=$!
for _ in $(seq 200); do
    ! bullpen team show kitchen >/dev/null 2>&1 || break
    sleep 0.1
done
bullpen web -t kitchen --port "$port" >"$folder/web.log" &
web=$!
wait "$up" || { cat "$folder/up.log"; exit 1; }
echo "== What the phone showed:"
cat "$folder/phone.log"
echo "== Published: $(cat published.txt)"
