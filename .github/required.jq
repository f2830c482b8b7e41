# Whether a change may be merged, from the `needs` of a workflow: the gate passed, and each other part
# passed, or was skipped because the change does not need it.
. as $jobs
| [$jobs.changes.result, $jobs.gate.result] == ["success", "success"]
  and all(
    "pages", "programs";
    . as $part
    | $jobs[$part].result == (if $jobs.changes.outputs[$part] == "true" then "success" else "skipped" end)
      and ($jobs.changes.outputs[$part] | IN("true", "false"))
  )
