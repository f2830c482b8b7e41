"""The team file: the members, the goal and the tasks of a team, in TOML.

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

The whole file is checked before anything is started.
"""
