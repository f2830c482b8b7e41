"""The team file: who is in a team, what it shall reach and which tasks there are, in TOML.

    [team]
    name = "docs"
    goal = "Write the manual, then check every link."

    [[member]]
    name = "ann"
    driver = "codex"

    [[task]]
    id = "manual"
    subject = "Write the manual"
    owner = "ann"

What a file says is checked as a whole before anything is started.
"""
