"""Rows that need real processes, a screen or a model, and the tests that run them."""

from __future__ import annotations

_RUNNER = "tests/unit/agents/runner"
_TUI = "tests/system/doors/tui"
_HOOKS = "tests/system/agents/hooks/test_lifecycle.py"
_NATIVE = "tests/unit/agents/drivers/native"

ELSEWHERE: dict[str, str] = {
    "watching": f"{_RUNNER}/test_loop.py::test_every_event_wakes_an_idle_agent_once",
    "shutdown-words": "tests/unit/doors/cli/agents/test_view.py"
    "::test_a_stop_says_whether_there_was_anything_to_stop",
    "shutdown-news": "tests/unit/view/test_shutdown_news.py::test_both_answers_are_news",
    "inherits": "tests/unit/agents/config/test_inherit.py::test_a_teammate_has_what_the_table_says",
    "messages-cost": f"{_NATIVE}/test_instructions.py"
    "::test_a_teammate_and_the_lead_are_told_who_they_are",
    "subagents": f"{_NATIVE}/test_subagent.py"
    "::test_its_answer_is_the_result_and_its_context_is_its_own",
    "bash-tool": "tests/system/agents/tools/test_shell.py"
    "::test_a_command_has_a_session_of_its_own_no_input_and_no_terminal",
    "team-prompt": "tests/unit/agents/mail/test_briefing.py::test_the_lead_is_told_once_what_it_is",
    "ask-lead": "tests/system/agents/lifecycle/test_permissions.py"
    "::test_a_lead_that_is_a_model_is_asked_and_answers",
    "talk-to-lead": f"{_TUI}/test_talk.py"
    "::test_what_is_typed_goes_to_the_lead_and_is_shown_at_once",
    "dialog": f"{_TUI}/test_answers.py::test_one_key_allows_exactly_what_is_shown",
    "spawn-in-ui": f"{_TUI}/test_talk.py::test_a_teammate_is_started",
    "answer-in-ui": f"{_TUI}/test_answers.py::test_one_key_allows_exactly_what_is_shown",
    "updated-input": f"{_TUI}/test_answers.py::test_edit_allows_another_input",
    "delegate-live": f"{_RUNNER}/test_new_mode.py"
    "::test_a_lead_is_told_to_only_lead_while_it_works_and_back",
    "hook-idle": f"{_RUNNER}/test_rest.py::test_a_teammate_that_has_to_go_on_is_not_called_idle",
    "hook-task": f"{_HOOKS}::test_a_gate_keeps_a_task_open_until_it_passes",
    "hook-payloads": f"{_HOOKS}::test_the_payloads_have_the_fields_of_the_real_program",
    "in-process": "tests/contract/backend/test_in_process.py::test_closing_ends_every_task",
    "tmux": "tests/system/doors/cli/test_agents.py::test_an_agent_in_tmux_can_be_looked_at",
    "tmux-variable": "tests/system/agents/backends/test_tmux_users.py"
    "::test_a_server_that_runs_for_long_hands_on_nothing",
    "tmux-end": "tests/system/agents/backends/test_survival.py::test_dead_panes_do_not_pile_up",
    "keys-members": f"{_TUI}/test_keys.py"
    "::test_shift_and_arrows_choose_a_member_and_enter_talks_to_it",
    "keys-enter": f"{_TUI}/test_keys.py"
    "::test_shift_and_arrows_choose_a_member_and_enter_talks_to_it",
    "keys-mode": f"{_TUI}/test_keys.py::test_shift_tab_goes_through_the_modes",
    "keys-tasks": f"{_TUI}/test_keys.py::test_ctrl_t_shows_the_tasks_and_goes_back",
    "stop-in-ui": f"{_TUI}/test_talk.py::test_stop_asks_first_and_ends_the_process",
    "notifications": "tests/system/runs/team_files/test_night_chores.py"
    "::test_every_command_is_told_in_order_what_it_wants_to_hear",
    "telemetry": "tests/unit/doors/telemetry/test_metrics.py"
    "::test_turns_calls_claims_and_spend_are_counted",
    "mcp-servers": "tests/unit/agents/tools/mcp_servers/test_native_servers.py"
    "::test_a_model_searches_loads_and_calls_a_tool_of_a_server",
    "skills": "tests/unit/agents/tools/skills/test_skill_requests.py"
    "::test_only_names_and_descriptions_are_in_a_request_until_one_is_loaded",
    "web-tools": "tests/system/agents/tools/test_web.py"
    "::test_a_page_is_fetched_and_links_are_whole",
    "floods": f"{_RUNNER}/test_quiet.py::test_five_idle_teammates_for_an_hour_cost_no_turn",
}
