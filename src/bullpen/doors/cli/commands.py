"""Every command of `bullpen`: the function that runs it, and the line that lists it in a help."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command: its function, as `module:name` below this package, and its help line."""

    target: str
    help: str


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """A group of commands. `target` is what it does when no command is named, if anything."""

    help: str
    about: str = ""
    examples: tuple[str, ...] = ()
    target: str = ""


PANELS = {
    "Start": ("run", "up", "init", "demo", "config", "docs"),
    "Watch": ("tui", "web", "ps", "logs", "report", "summary", "cost", "events"),
    "Answer": ("requests", "approve", "deny", "send"),
    "Work": (
        *("task", "notes", "promises", "review", "merge", "forge", "workspace", "inbox"),
        "eval",
    ),
    "Team": ("team", "member", "spawn", "mode", "interrupt", "stop", "attach", "doctor"),
    "Other programs": ("mcp", "acp", "join", "drivers"),
    "Machines": ("server", "host", "hosts", "auth"),
}
"""The first page of the help. Commands that are in no panel are advanced."""

OTHER_WORDS = {
    "status": "ps",
    "resume": "team resume",
    "task complete": "task done",
    "task create": "task add",
    "task update": "task edit",
}
"""What people type who know other programs, and the command that does it here."""

ADVANCED = "Advanced"
HIDDEN = {"agent"}
"""What only Bullpen itself starts."""

AGENTS_MAY_TYPE = frozenset(
    {
        *("ps", "cost", "events", "summary", "requests", "approve", "deny", "send", "inbox"),
        *("spawn", "stop", "interrupt", "drivers", "hosts", "schema"),
        *("team list", "team show", "team limits"),
        *("member add", "member list", "member remove"),
        *("task add", "task list", "task show", "task claim", "task done", "task release"),
        *("task assign", "task depend", "task undepend", "task delete", "task edit", "task check"),
        *("task graph", "task budget"),
        *("notes list", "notes show", "notes write", "notes history", "notes diff"),
        *("workspace list", "workspace show", "workspace saved"),
        *("merge list", "merge log", "merge set"),
        *("promises list", "promises make", "promises rely", "promises drop"),
        "promises withdraw",
        *("policy show", "policy check", "mode"),
        # The process of an agent itself.
        "agent run",
    }
)
"""The commands that agents may type in their shells. Every other command refuses them.

A command belongs here if it only reads, or if the rules of the team decide what it may change."""

CONFIGURED = frozenset({"run", "acp", "spawn", "init"})
"""The commands whose options `bullpen config` sets where the command line does not."""

BEFORE_ANY_TEAM = frozenset({"auth", "bridge", "demo", "host", "server"})
"""Commands and groups that people need before there is a store to read: it is not asked who of its
agents might be typing."""

COMMANDS: dict[str, CommandEntry | GroupEntry] = {
    "run": CommandEntry("runs.run:run", "Give a team a goal, and talk with its lead"),
    "up": CommandEntry("runs.up:up", "Start the team of a team file and watch it"),
    "replay": CommandEntry(
        "runs.replay:replay_tape", "Run a recorded run again, without a model or a key"
    ),
    "init": CommandEntry("runs.init:init", "Write a team file for this project"),
    "demo": CommandEntry("runs.run:demo", "Watch a simulated team work; no API key needed"),
    "config": GroupEntry(
        "Show and change your defaults for commands",
        about="Your own file is ~/.config/bullpen/config.toml. A project that you trust can have "
        "one too: .bullpen/config.toml.",
        examples=("bullpen config set driver codex", "bullpen config list"),
    ),
    "config list": CommandEntry(
        "start.config:list_keys", "List all settings and where each comes from"
    ),
    "config get": CommandEntry("start.config:get", "Show one setting"),
    "config set": CommandEntry("start.config:set_key", "Change one setting"),
    "config edit": CommandEntry("start.config:edit", "Open a settings file in your editor"),
    "config path": CommandEntry(
        "start.config:path_of_file", "Print the path of your settings file"
    ),
    "docs": CommandEntry("start.docs:docs", "Open the documentation, or the help of a command"),
    "tui": CommandEntry("screens.tui:tui", "Watch and steer a team in the terminal"),
    "web": CommandEntry("screens.web:web", "Watch and steer a team in a browser"),
    "ps": CommandEntry("agents.ps:ps", "Show agents: state, task, activity, cost"),
    "logs": CommandEntry("agents.agents:logs", "Show what an agent was told, said and did"),
    "report": CommandEntry("runs.report:report", "Write a report of a run as HTML or Markdown"),
    "summary": CommandEntry(
        "runs.summary:summary", "Show what a team did and what is left for you to do"
    ),
    "cost": CommandEntry("tasks.cost:cost", "Show tokens and money used, by agent, task or model"),
    "events": CommandEntry("teams.events:events", "Show every change to a team: when, who, what"),
    "notes": GroupEntry(
        "Show and write the plan and other notes of a team",
        examples=("bullpen notes show plan", "bullpen notes edit plan"),
    ),
    "notes list": CommandEntry(
        "teams.notes:list_notes", "List the notes of a team, the plan first"
    ),
    "notes show": CommandEntry("teams.notes:show", "Show a note, or an earlier version of it"),
    "notes write": CommandEntry("teams.notes:write", "Write a note over the version you read"),
    "notes edit": CommandEntry("teams.notes:edit", "Open a note in your editor"),
    "notes history": CommandEntry("teams.notes:history", "List who wrote a note, and when"),
    "notes diff": CommandEntry("teams.notes:diff", "Show what changed between two versions"),
    "requests": CommandEntry(
        "permissions.requests:requests", "List requests that wait for an answer"
    ),
    "approve": CommandEntry("permissions.answers:approve", "Approve a request"),
    "deny": CommandEntry("permissions.answers:deny", "Deny a request"),
    "send": CommandEntry("teams.mail:send", "Send a message to a member or the whole team"),
    "inbox": CommandEntry("teams.mail:inbox", "Show the messages of a member"),
    "spawn": CommandEntry("agents.agents:spawn", "Start an agent as a teammate"),
    "stop": CommandEntry("agents.agents:stop", "Stop an agent, or all agents of a team"),
    "interrupt": CommandEntry(
        "agents.steer:interrupt", "Interrupt an agent's turn; it keeps running"
    ),
    "mode": CommandEntry("agents.steer:mode", "Show or change the permission mode of an agent"),
    "attach": CommandEntry("agents.agents:attach", "Show an agent's own terminal in this one"),
    "doctor": CommandEntry("teams.doctor:doctor", "Find and fix damage in a team"),
    "join": CommandEntry("teams.join:join", "Add an agent to a running Claude Code session"),
    "drivers": CommandEntry("agents.drivers:drivers", "List agent programs and what each supports"),
    "hosts": CommandEntry("machines.host:hosts", "List the machines that run agents"),
    "down": CommandEntry("runs.up:down", "Stop all agents of a team; `bullpen up` continues"),
    "trust": CommandEntry("permissions.trust:trust", "Trust this project's settings and roles"),
    "acp": CommandEntry("screens.acp:serve", "Be the agent of an editor: a team that speaks ACP"),
    "schema": CommandEntry(
        "runs.schema:schema", "Print the JSON Schema of team files or of JSON output"
    ),
    "telemetry": CommandEntry(
        "screens.telemetry:telemetry", "Export traces, metrics and logs of a team"
    ),
    "bridge": CommandEntry(
        "teams.bridge:bridge", "Run as the teammate that a Claude Code lead starts"
    ),
    "eval": GroupEntry(
        "Measure one agent and a team on tasks with hidden tests",
        examples=(
            "bullpen eval make --last 20 -o evals",
            "bullpen eval run evals --arms solo,team --budget-usd 20",
        ),
    ),
    "eval run": CommandEntry("evals.eval_run:run", "Run the trials of a suite, or continue them"),
    "eval report": CommandEntry("evals.eval_run:report", "Show what the trials say about each arm"),
    "eval make": CommandEntry(
        "evals.suites:make", "Make a suite of the last changes of this repository"
    ),
    "eval import": CommandEntry(
        "evals.suites:import_tasks", "Make a suite of tasks of another benchmark"
    ),
    "team": GroupEntry("Create, list, show, resume, move and delete teams"),
    "team create": CommandEntry(
        "teams.team:create", "Create a team with its lead as the only member"
    ),
    "team list": CommandEntry("teams.team:list_teams", "List all teams and their progress"),
    "team show": CommandEntry("teams.team:show", "Show a team: members, tasks, requests, problems"),
    "team resume": CommandEntry("teams.team_agents:resume", "Start the agents of a team again"),
    "team delete": CommandEntry(
        "teams.team_agents:delete", "Delete a team with its tasks and messages"
    ),
    "team limits": CommandEntry(
        "tasks.budget:limits", "Show or set the limits of a team or an agent"
    ),
    "team move": CommandEntry("teams.move:move", "Move a team to another store"),
    "team mirror": CommandEntry("teams.mirror:mirror", "Keep a team on NATS as files too"),
    "member": GroupEntry("Add, list and remove members"),
    "member add": CommandEntry("teams.member:add", "Add a teammate"),
    "member list": CommandEntry(
        "teams.member:list_members", "List members: state, tasks, unread messages"
    ),
    "member remove": CommandEntry(
        "teams.member_remove:remove", "Remove a teammate and release its tasks"
    ),
    "task": GroupEntry("Add, claim, complete and connect tasks"),
    "task add": CommandEntry("tasks.task_text:add", "Add a task"),
    "task list": CommandEntry("tasks.task:list_tasks", "List tasks and what each waits for"),
    "task show": CommandEntry("tasks.task:show", "Show one task"),
    "task claim": CommandEntry("tasks.task:claim", "Claim a task and start on it"),
    "task done": CommandEntry("tasks.task_proof:done", "Run a task's checks and complete it"),
    "task release": CommandEntry(
        "tasks.task:release", "Release a task so that others can claim it"
    ),
    "task assign": CommandEntry("tasks.task:assign", "Assign a task to a member"),
    "task depend": CommandEntry("tasks.task:depend", "Make a task depend on others"),
    "task undepend": CommandEntry("tasks.task:undepend", "Remove dependencies of a task"),
    "task give-up": CommandEntry("tasks.task:give_up", "Abandon a task until it is retried"),
    "task retry": CommandEntry("tasks.task:retry", "Retry a task that was given up"),
    "task delete": CommandEntry("tasks.task:delete", "Delete a task and every reference to it"),
    "task edit": CommandEntry("tasks.task_text:edit", "Edit the text or the checks of a task"),
    "task check": CommandEntry(
        "tasks.task_proof:check", "Run a task's checks and record the results"
    ),
    "task graph": CommandEntry("tasks.task:graph", "Show which tasks depend on which"),
    "task budget": CommandEntry("tasks.budget:budget", "Show or set the budget of a task"),
    "workspace": GroupEntry(
        "List, save, restore and remove agents' worktrees",
        examples=("bullpen workspace list", "bullpen workspace restore alpha/alice/1"),
    ),
    "workspace list": CommandEntry("tasks.workspace:list_trees", "List agents' worktrees"),
    "workspace show": CommandEntry(
        "tasks.workspace:show", "Show a worktree with its changes and snapshots"
    ),
    "workspace save": CommandEntry("tasks.workspace:save", "Save a snapshot of a worktree"),
    "workspace saved": CommandEntry("tasks.workspace:list_saved", "List snapshots of worktrees"),
    "workspace restore": CommandEntry(
        "tasks.workspace:restore", "Restore a snapshot into a new worktree"
    ),
    "workspace remove": CommandEntry(
        "tasks.workspace:remove", "Remove the worktree of an agent that has ended"
    ),
    "promises": GroupEntry(
        "Promise what others build on, and rely on promises",
        examples=("bullpen promises list", "bullpen promises rely 3.1 4"),
    ),
    "promises list": CommandEntry(
        "tasks.promises:list_promises", "List the promises in force, and which tasks rely on them"
    ),
    "promises make": CommandEntry("tasks.promises:make", "Promise something with a task"),
    "promises rely": CommandEntry("tasks.promises:rely", "Build on a promise with a task"),
    "promises drop": CommandEntry("tasks.promises:drop", "No longer build on a promise"),
    "promises withdraw": CommandEntry("tasks.promises:withdraw", "Withdraw a promise"),
    "review": CommandEntry(
        "tasks.review:review", "Have a change reviewed by an agent with a clean context"
    ),
    "merge": GroupEntry(
        "Inspect, run and configure the merge queue",
        examples=("bullpen merge list", "bullpen merge set --target main --gate 'make test'"),
    ),
    "merge list": CommandEntry(
        "tasks.merge:list_line", "Show the merge queue and the work it returned"
    ),
    "merge log": CommandEntry("tasks.merge:log", "Show what the merge queue did, in order"),
    "merge run": CommandEntry("tasks.merge:run", "Run the merge queue until it is empty"),
    "merge set": CommandEntry(
        "tasks.merge:set_", "Show or set the target branch and the merge gate"
    ),
    "forge": GroupEntry(
        "Turn issues of a forge into merged pull requests",
        about="On GitHub, Gitea and Forgejo. Issues become tasks, and finished work becomes pull "
        "requests, while `bullpen up` runs. Only Bullpen has the token: agents cannot push.",
        examples=("bullpen forge login", "bullpen forge check", "bullpen forge status"),
    ),
    "forge login": CommandEntry("tasks.forge:login", "Keep the token of a forge in Bullpen's home"),
    "forge check": CommandEntry(
        "tasks.forge:check", "Check the settings, the token, its rights and the branch"
    ),
    "forge status": CommandEntry(
        "tasks.forge:status", "Show issues, their tasks and their pull requests"
    ),
    "forge sync": CommandEntry("tasks.forge:sync", "Read the forge and write to it once"),
    "forge hook": CommandEntry("tasks.forge:hook", "Show what to enter for a webhook on the forge"),
    "forge resume": CommandEntry(
        "tasks.forge:resume", "Let a task or a night go on that waits for you"
    ),
    "forge set": CommandEntry("tasks.forge:set_", "Show or set which forge the team uses"),
    "forge unset": CommandEntry("tasks.forge:unset", "Let the team use no forge any more"),
    "policy": GroupEntry("Show and change what an agent may do"),
    "policy show": CommandEntry(
        "permissions.policy:show", "Show an agent's policy and where it comes from"
    ),
    "policy check": CommandEntry(
        "permissions.policy:check", "Show what would happen to a tool call, and why"
    ),
    "mcp": GroupEntry(
        "Connect programs that speak MCP to a team",
        about="Without a command, serves one program over standard input and output as the "
        "member that --as names. Without --team, the program is in no team and can create "
        "one that it leads.",
        examples=(
            "bullpen mcp --team alpha --as carol",
            "bullpen mcp --http --port 8765",
            "bullpen mcp token dave --team alpha",
            "bullpen mcp install claude --team alpha --as carol",
        ),
        target="screens.mcp:serve",
    ),
    "mcp install": CommandEntry(
        "screens.mcp_install:install", "Add Bullpen to a program's MCP configuration"
    ),
    "mcp uninstall": CommandEntry(
        "screens.mcp_install:uninstall", "Remove Bullpen from a program's MCP configuration"
    ),
    "mcp login": CommandEntry("screens.mcp_login:login", "Log in to an MCP server that agents use"),
    "mcp token": CommandEntry("screens.mcp:token", "Create a token for a member and print it once"),
    "mcp tokens": CommandEntry("screens.mcp:tokens", "List the members that have a token"),
    "mcp revoke": CommandEntry("screens.mcp:revoke", "Revoke the token of a member"),
    "server": GroupEntry(
        "Run and monitor NATS servers for teams",
        about="`start` runs servers on this machine for development. For servers on other "
        "machines, `config` prints their configuration files and `check` reports "
        "problems.",
        examples=(
            "bullpen server start",
            "bullpen server start --nodes 3",
            "bullpen server status",
            "bullpen server config --hosts a.example.com,b.example.com,c.example.com",
            "bullpen server backup backup-of-today",
        ),
    ),
    "server start": CommandEntry("machines.server:start", "Start NATS servers on this machine"),
    "server prepare": CommandEntry("machines.server:prepare", "Create the streams that teams need"),
    "server stop": CommandEntry("machines.server:stop", "Stop the servers that `start` started"),
    "server status": CommandEntry("machines.server:status", "Show the servers and their streams"),
    "server check": CommandEntry("machines.server:check", "Report what is wrong with the servers"),
    "server config": CommandEntry(
        "machines.server:config", "Print configuration files for production servers"
    ),
    "server backup": CommandEntry("machines.server:backup", "Back up all teams to a directory"),
    "server restore": CommandEntry(
        "machines.server:restore", "Restore a backup onto empty servers"
    ),
    "auth": GroupEntry(
        "Manage keys for NATS servers",
        about="A tenant's teams are invisible to other tenants. Each host, person and reader of "
        "a tenant has its own key, a file that BULLPEN_CREDS names on the machine where "
        "it is used.",
        examples=(
            "bullpen auth init --tenant acme",
            "bullpen auth mint host web-1 --expires 90d",
            "bullpen auth mint human ann --for alpha",
            "bullpen auth revoke web-1",
            "bullpen auth push",
        ),
    ),
    "auth tenant": GroupEntry(
        "Manage the tenants of an operator",
        examples=("bullpen auth tenant add acme", "bullpen auth tenant list"),
    ),
    "auth tenant add": CommandEntry(
        "machines.auth:add_tenant", "Add a tenant with an administrator"
    ),
    "auth tenant list": CommandEntry("machines.auth:list_tenants", "List the tenants"),
    "auth tenant remove": CommandEntry(
        "machines.auth:remove_tenant", "Revoke all keys of a tenant"
    ),
    "auth init": CommandEntry("machines.auth:init", "Create an operator and its first tenant"),
    "auth mint": CommandEntry(
        "machines.auth:mint", "Create a key for a host, a person or a reader"
    ),
    "auth list": CommandEntry("machines.auth:list_keys", "List the keys of a tenant"),
    "auth revoke": CommandEntry("machines.auth:revoke", "Revoke a key"),
    "auth rotate": CommandEntry("machines.auth:rotate", "Replace a key and revoke the old one"),
    "auth upgrade": CommandEntry("machines.auth:upgrade", "Replace the keys of an earlier version"),
    "auth push": CommandEntry(
        "machines.auth:push", "Send tenants, roles and revocations to servers"
    ),
    "auth config": CommandEntry(
        "machines.auth:config", "Print the server configuration for these keys"
    ),
    "auth tls": CommandEntry("machines.auth:tls", "Create development certificates for servers"),
    "host": GroupEntry(
        "Run agents of teams on NATS on this machine",
        examples=(
            "bullpen host run --label repo=web --agents 8",
            "bullpen spawn alice 'Write the parser' --on repo=web",
            "bullpen hosts",
        ),
    ),
    "host run": CommandEntry("machines.host:run", "Run agents on this machine until stopped"),
    "host forget": CommandEntry("machines.host:forget", "Forget a host that will not come back"),
    "agent": GroupEntry("Commands that run inside an agent's process"),
    "agent run": CommandEntry(
        "agents.agent_run:run", "Run the agent that this process was started for"
    ),
}
