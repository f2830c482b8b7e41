"""Commands about work: task, merge, workspace, cost."""
