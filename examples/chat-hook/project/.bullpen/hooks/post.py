#!/usr/bin/env python3
"""Tells a chat what happens in the team: one JSON object comes in, one goes to the webhook."""

import json
import sys
import urllib.request
from pathlib import Path

event = json.load(sys.stdin)
if event["hook_event_name"] == "TaskCompleted":
    text = f"{event['agent']} has done task {event['task_id']}: {event['task_subject']}"
else:
    text = f"{event['agent']} is here"
# With a real chat this is its incoming webhook, in a file that is not committed.
url = Path(__file__).with_name("webhook.url").read_text(encoding="utf-8").strip()
body = json.dumps({"text": text}).encode()
request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310
urllib.request.urlopen(request, timeout=5).close()  # noqa: S310
