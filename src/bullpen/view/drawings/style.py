"""The style sheet of drawings. Colours are variables with defaults for a light page."""

STYLE = """\
.drawing { display: block; font: 13px/1.2 system-ui, sans-serif; color: inherit; }
.drawing-gantt, .drawing-spend { width: 100%; min-width: 56rem; height: auto; }
.drawing text { fill: var(--text, #1b1f24); }
.drawing .owner, .drawing .tick, .drawing .empty { fill: var(--muted, #57606a); font-size: 11.5px; }
.drawing .node rect { fill: var(--panel, #ffffff); stroke: var(--line, #8c959f); }
.drawing .node .mark { stroke: var(--state, #8c959f); stroke-width: 4; stroke-linecap: round; }
.drawing .node.critical rect { stroke: var(--critical, #bc4c00); stroke-width: 2; }
.drawing .node:is(.state-done, .state-merged) .subject { fill: var(--muted, #57606a); }
.drawing a:focus-visible { outline: none; }
.drawing a:focus-visible rect { stroke: var(--focus, #0969da); stroke-width: 3; }
.drawing .edge { fill: none; stroke: var(--line, #8c959f); stroke-width: 1.2; }
.drawing .edge.critical { stroke: var(--critical, #bc4c00); stroke-width: 2.4; }
.drawing .lane, .drawing .grid { stroke: var(--hair, #d0d7de); fill: none; stroke-width: 1; }
.drawing .span { fill: var(--state, #8c959f); }
.drawing .span.state-idle { opacity: 0.45; }
.drawing .spent { fill: none; stroke: var(--good, #1a7f37); stroke-width: 2; }
.drawing .spent-area { fill: var(--good, #1a7f37); opacity: 0.14; }
.state-working, .state-in_progress { --state: var(--good, #1a7f37); }
.state-waiting, .state-queued, .state-unproven { --state: var(--attention, #9a6700); }
.state-starting, .state-ready { --state: var(--new, #0969da); }
.state-idle, .state-blocked { --state: var(--quiet, #8c959f); }
.state-stopped, .state-done, .state-merged { --state: var(--ended, #6e7781); }
.state-failed, .state-lost, .state-given_up { --state: var(--bad, #cf222e); }
"""
