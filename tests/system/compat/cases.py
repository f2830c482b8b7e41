"""The command lines whose answers are compared, in the order in which they are run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

RECORDED = """
team list
team show shop
team show desk
team show post
team show foreign
team show nobody
team limits -t shop
team limits -t desk --agent pia
member list -t shop
member list -t desk
member list -t foreign
member list
task list -t shop
task list -t desk
task list -t desk --ready
task list -t desk --status completed
task list -t desk --owner bob
task list -t foreign
task show 1 -t shop
task show 2 -t desk
task show 4 -t desk
task show 6 -t desk
task show 8 -t desk
task show 5 -t desk
task graph -t shop
task graph -t desk
task graph -t desk --mermaid
task budget 3 -t desk
ps -t shop
ps -t desk
ps -t foreign
logs cook -t shop
logs pia -t desk
logs max -t desk -n 3
logs nobody -t desk
cost -t shop
cost -t shop --by task
cost -t shop --by model
cost cook -t shop
cost -t desk
summary -t shop
summary -t desk
summary -t shop --markdown
report -t shop --format md -o ../page.md
report -t shop -o ../page.html
report --events ../missing.json
requests -t desk
requests -t desk --all
requests -t shop
inbox team-lead -t desk
inbox ann -t desk --unread
inbox ann -t desk
inbox pia -t desk --history
inbox cook -t shop --history
inbox ann -t post --unread
inbox nobody -t desk
events -t shop --after 40
events -t desk --limit 40
events -t desk --after 90
events -t post --limit 4
events -t foreign
telemetry -t shop --logs
telemetry -t shop --prometheus-once
telemetry -t desk --logs --content
doctor -t shop
doctor -t desk
doctor --all
policy show pia -t desk
policy show max -t desk
policy show cook -t shop
policy show team-lead -t desk
policy check pia Bash 'touch allowed' -t desk
policy check pia Bash 'rm -rf /' -t desk
policy check pia Read .env -t desk
policy check nobody Read .env -t desk
workspace list -t shop
workspace show cook -t shop
workspace saved -t shop
merge list -t shop
merge log 1 -t shop
merge log 9 -t shop
merge list -t desk
merge set -t shop
trust --list
drivers
hosts
schema
mcp tokens
server status
server check
server config
init --list
init
attach cook -t shop
attach nobody -t shop
stop nobody -t desk
approve zzzz -t desk
deny zzzz -t desk
task done 1 -t desk
task claim 1 -t desk --as ann
send nobody Hi -t desk
send ann Hi -t nobody
member add ann -t desk
team create desk
team create ../x
team
nothing
task add
agent run
tui
bridge
join
mcp install nothing --dry-run
mcp uninstall nothing --dry-run
mcp login nothing
forge login https://me@git.example/a/b
forge check -t shop
forge status -t shop
forge sync -t shop
forge hook -t shop
forge resume 1 -t shop
forge set --merge nobody -t shop
forge unset -t nobody
up missing.toml
down missing.toml
spawn ann Write -t desk --driver scripted
spawn zoe Write -t desk --driver nothing
host run
host forget nowhere
web -t shop --host 256.0.0.1
server start --nodes 2
server stop
server prepare
server backup there
server restore there
auth list
team resume desk
demo --backend nothing
acp --team-file missing.toml
review nothing
replay missing.tape
eval run missing --arms solo
eval report missing
eval make --last 1 -o ../suite
eval import harbor missing -o ../suite
"""
"""On a copy of the recorded home. None of them may change it."""

WRITES = """
team create new --description 'A new team' --cwd /srv/project
member add ann --type writer --model m-1 --prompt Write --plan-mode --cwd /srv/project -t new
member add bob -t new
task add First -t new --owner ann --check ok=true --needs-report --budget-turns 3
task add Second -t new --blocked-by 1
task add Third -t new
task edit 3 -t new --subject 'The third' --check-file README.md
task claim 1 -t new --as ann
task check 1 -t new --as ann --report Done
task done 1 -t new --as ann --report Done
task done 1 -t new --as ann --report Again
task depend 3 2 -t new
task depend 2 3 -t new
task undepend 3 2 -t new
task assign 2 bob -t new
task claim 2 -t new --as bob --also
task release 2 -t new --as bob --reason Later
task give-up 2 'Not needed' -t new
task retry 2 -t new
task budget 2 --turns 5 --usd 1.5 -t new
task delete 2 -t new
send ann Hello -t new --summary Greeting
send ann Twice -t new --key one
send ann Twice -t new --key one
send @team 'To all' -t new
send team-lead Back -t new --as ann
inbox ann -t new
inbox ann -t new --mark-seen
inbox ann -t new --unread
team limits new --agents 4 --depth 2 --spawns 9 --turns 50 --tokens 1000 --usd 2
team limits new --seconds 60 --memory-mb 100 --processes 20
member remove bob -t new
team show new
events -t new
doctor -t new
doctor -t new --fix
team delete new
team delete new --yes
task add 'One more' -t desk --blocked-by 3
task claim 3 -t desk --as bob --also
task done 3 -t desk --as bob --report 'At last'
task retry 4 -t desk
task done 8 -t desk --as bob
send ann 'Are you there?' -t desk
send pia 'Are you there?' -t desk
inbox team-lead -t desk --mark-seen
approve -t desk REQUEST
deny -t desk REQUEST 'Too late'
requests -t desk --all
member remove max -t desk
task add Sweep -t shop --owner cook
task list -t shop
merge run --once -t shop
merge set --batch 3 --retries 1 -t shop
send ann 'And one more' -t post
inbox ann -t post --unread
member add dan -t foreign
task done 1 -t foreign --as ann
team show foreign
doctor --all
trust .
trust --list
trust . --remove
mcp token ann -t desk
mcp tokens -t desk
mcp revoke ann -t desk
mcp install claude --scope project --dry-run -t desk
mcp uninstall claude --scope project --dry-run -t desk
team limits -t desk --agent pia --turns 99
mode pia acceptEdits -t desk
workspace remove --all -t shop
stop --all -t desk
run Do --driver scripted --until nothing
team mirror nobody --into INTO
team move post --to files:TO --keep
team delete desk --force --yes
team list
auth init --tenant acme --dir AUTH
auth mint host box --dir AUTH
auth list --dir AUTH
auth rotate box --dir AUTH
auth revoke box --dir AUTH
auth tenant add other --dir AUTH
auth tenant list --dir AUTH
auth tenant remove other --yes --dir AUTH
auth config --resolver /srv/accounts --dir AUTH
auth tls --host localhost --dir AUTH
auth upgrade --dir AUTH
auth push --dir AUTH
init made --template backlog --driver scripted
up made/TEAM.toml --dry-run
config list
config set model m-2
config get model
config path
config edit
docs merge list
interrupt pia -t shop
notes list -t shop
notes write plan 'Ship it' -t shop
notes write plan 'Something else' -t shop
notes list -t shop
notes show plan -t shop
notes history plan -t shop
notes diff plan -t shop
notes edit plan -t shop
task add Season -t shop
promises make 4 'Only I edit soup.txt' --path soup.txt -t shop
promises rely 4.1 5 -t shop
promises list -t shop
promises drop 4.1 5 -t shop
promises withdraw 4.1 -t shop
"""
"""On one copy of the recorded home, one after another."""

LIVE = """
up shop.toml --timeout 50
team show shop
task list
workspace list
workspace show cook
workspace save cook --why Kept
workspace saved
workspace restore SAVED ../restored
merge set
merge list
merge log 1
merge run --once
cost
summary
ps
down shop.toml
workspace remove --all
workspace list
team create desk
spawn ida 'You wait.' --driver scripted --script ../script.toml -t desk
attach ida -t desk
stop ida -t desk
team resume desk --agent ida
stop --all -t desk
logs ida -t desk
"""
"""In a repository of their own, with agents that run."""

ON_SERVER = """
team list
team show shop
team show desk
member list -t desk
task list -t shop
task list -t desk
task show 2 -t desk
task graph -t desk
requests -t desk --all
inbox ann -t desk
inbox ann -t post --unread
events -t shop --limit 12
events -t desk --limit 20
events -t post --after 405
cost -t shop
summary -t shop
policy show pia -t desk
merge list -t shop
doctor --all
hosts
host forget nowhere
server prepare --partitions 2
server check
"""
"""On the recorded streams, before anything is written."""

ON_SERVER_WRITES = """
deny -t desk REQUEST 'Too late'
send ann Hello -t post
inbox ann -t post --unread
task add More -t desk --blocked-by 3
task claim 3 -t desk --as bob --also
task done 3 -t desk --as bob --report Done
task retry 4 -t desk
team create new
member add ann -t new
events -t new
team delete new --yes
doctor --all
"""
"""On the recorded streams, afterwards."""

NOT_RUN = {
    "agent run": "is an agent, which `up` and `spawn` start",
    "acp": "speaks ACP",
    "attach": "takes a terminal",
    "auth push": "needs servers with accounts",
    "bridge": "is a teammate of another program",
    "config edit": "takes a terminal",
    "notes edit": "takes a terminal",
    "demo": "makes what `up` makes, in 20 s",
    "eval import": "needs the tasks of another benchmark",
    "eval make": "needs a repository with tests",
    "eval report": "needs an eval that ran",
    "eval run": "runs agents",
    "forge check": "needs a forge",
    "forge hook": "needs a forge",
    "forge login": "takes a token",
    "forge resume": "needs a forge",
    "forge set": "needs a forge",
    "forge status": "needs a forge",
    "forge sync": "needs a forge",
    "forge unset": "needs a forge",
    "host forget": "needs a host",
    "host run": "goes on until it is stopped",
    "interrupt": "needs an agent in a turn",
    "join": "needs another program",
    "mcp login": "needs a server with OAuth",
    "mcp uninstall": "there is nothing to remove after a dry run",
    "replay": "runs agents",
    "review": "runs an agent",
    "run": "makes what `up` makes",
    "server backup": "needs servers that `server start` started",
    "server check": "needs servers that `server start` started",
    "server restore": "needs servers that `server start` started",
    "server start": "starts servers that go on",
    "server status": "needs servers that `server start` started",
    "server stop": "needs servers that `server start` started",
    "team mirror": "goes on until it is stopped",
    "tui": "takes a terminal",
    "web": "goes on until it is stopped",
}
"""Commands of which only a refusal is compared, and why."""


_PRINT_LINES = (["run"], ["up"], ["merge", "run"], ["team", "mirror"], ["host", "run"])


def prints_lines(words: Sequence[str]) -> bool:
    """Whether a command printed a line for each event, so that its lines are compared."""
    if "--dry-run" in words or "--detach" in words:
        return False
    return "--logs" in words or any([*words[: len(path)]] == path for path in _PRINT_LINES)


def lines(text: str) -> list[list[str]]:
    """The words of each command line."""
    return [shlex.split(line) for line in text.strip().splitlines()]
