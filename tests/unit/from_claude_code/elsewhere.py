"""Rows whose promise has its home elsewhere, and the tests that run them."""

from __future__ import annotations

_RUNNER = "tests/unit/agents/runner"
_TUI = "tests/system/doors/tui"
_HOOKS = "tests/system/agents/hooks/test_lifecycle.py"
_NATIVE = "tests/unit/agents/drivers/native"

_BY_ROW: dict[str, str] = {
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
    "spawn-in-ui": f"{_TUI}/test_talk.py::test_every_command_does_what_it_says",
    "answer-in-ui": f"{_TUI}/test_answers.py::test_one_key_allows_exactly_what_is_shown",
    "updated-input": f"{_TUI}/test_answers.py"
    "::test_an_edit_that_is_no_input_is_refused_and_can_be_mended",
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
    "keys-tasks": f"{_TUI}/test_keys.py::test_a_task_is_assigned_on_the_board",
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

# The same without a process: below tests/unit, by file, each row with its test.
_UNIT: dict[str, dict[str, str]] = {
    "agents/runner/test_loop.py": {
        "works-at-once": "the_prompt_is_the_first_message_and_begins_the_first_turn",
        "first-message": "the_prompt_is_the_first_message_and_begins_the_first_turn",
        "mail-while-starting": (
            "the_prompt_comes_before_mail_that_was_sent_while_the_agent_was_starting"
        ),
        "idle-after-each-turn": "the_lead_is_told_which_task_was_completed_in_the_turn",
        "idle-task": "the_lead_is_told_which_task_was_completed_in_the_turn",
        "peers": "the_idle_notice_says_whom_one_wrote_to",
        "shutdown-yes": "a_shutdown_that_was_agreed_to_ends_the_agent_after_its_turn",
    },
    "agents/runner/test_quiet.py": {
        "wait-for-all": "five_completions_within_ten_seconds_are_one_lead_turn",
    },
    "agents/runner/test_plan_mode.py": {
        "plan-mode": "a_rejected_plan_is_revised_and_submitted_under_a_new_id",
    },
    "agents/tools/test_team.py": {
        "agent-id": "both_forms_store_a_message_under_the_senders_name",
        "send-answer": "both_forms_store_a_message_under_the_senders_name",
        "broadcast": "a_broadcast_is_stored_for_everybody_else",
        "shutdown-no": "a_shutdown_is_asked_for_refused_and_agreed_to",
        "task-tool": "task_starts_a_teammate_as_spawn_teammate_does",
    },
    "agents/tools/test_own_team.py": {
        "one-team": "a_lead_has_one_team",
        "team-create": "creating_its_own_team_answers_as_claude_code_does",
        "delete-refused": "a_team_ends_when_its_members_have",
    },
    "agents/tools/test_tasks.py": {
        "task-tools": "a_task_is_created_shown_and_listed",
        "task-edges": "several_changes_in_one_call_are_all_made",
        "assignment": "a_task_is_given_back_assigned_and_deleted",
    },
    "agents/tools/test_toolbox.py": {
        "no-nested-teams": "a_teammate_works_and_talks_but_does_not_lead",
        "tool-lists": "tools_are_allowed_and_taken_away_by_name",
        "delegate": "a_lead_that_delegates_cannot_work_itself",
    },
    "agents/tools/test_notebooks.py": {
        "notebook-edit": "a_replaced_cell_keeps_its_id_and_loses_its_outputs",
    },
    "agents/config/test_agent_types.py": {
        "agent-types": "a_type_has_its_tools_and_those_of_the_team",
    },
    "agents/config/test_definitions.py": {
        "own-types": "the_nearest_definition_wins_and_bullpens_own_come_first",
    },
    "agents/drivers/native/test_instructions.py": {
        "rules-of-the-user": "the_rules_of_the_project_come_from_the_git_root_down",
    },
    "agents/permissions/test_decide.py": {
        "modes": "each_call_has_the_effect_that_the_table_says",
    },
    "agents/permissions/test_rules.py": {
        "rules": "every_part_of_a_line_must_be_allowed",
    },
    "agents/mail/test_frame.py": {
        "frame": "a_frame_has_the_shape_that_models_know",
    },
    "team/test_roster.py": {
        "team-fields": "a_new_team_has_the_known_shape",
        "lead-row": "a_new_team_has_the_known_shape",
        "colors": "members_who_join_at_once_are_all_stored_with_colours_in_cycle",
        "lead-stays": "the_lead_cannot_be_removed",
    },
    "team/test_lead_rules.py": {
        "lead-only": "only_the_lead_does_what_is_the_leads",
    },
    "team/agents/test_entries.py": {
        "pane": "an_entry_names_the_pane_while_its_agent_runs",
    },
    "team/agents/test_farewell.py": {
        "unassigned-at-the-end": "an_agent_that_ends_in_order_says_which_tasks_it_left",
    },
    "team/mail/test_mail.py": {
        "send-message": "a_sent_message_is_stored_in_the_known_shape",
    },
    "team/requests/test_mode_change.py": {
        "mode-live": "a_person_sets_every_mode_and_the_agent_is_told",
        "mode-set-request": "a_person_sets_every_mode_and_the_agent_is_told",
    },
    "team/requests/test_approvals.py": {
        "shutdown": "an_approved_shutdown_names_where_the_member_ran",
        "plan-approval": "an_approved_plan_of_an_agent_names_the_mode_that_it_gets",
        "permission-request": "a_permission_request_names_the_exact_call",
    },
    "team/tasks/test_claims.py": {
        "unblocking": "completed_blockers_do_not_block",
        "claim-reasons": "the_reasons_are_looked_for_in_their_order",
    },
    "team/tasks/test_tasks.py": {
        "claim-once": "of_many_claimants_exactly_one_succeeds",
    },
    "team/tasks/test_rules.py": {
        "complete-unclaimed": "completing_a_pending_task_claims_it",
        "no-way-back": "only_what_is_taken_can_be_released_by_its_owner",
    },
    "team/tasks/test_edges.py": {
        "delete-any": "deleting_a_task_leaves_no_reference_behind",
    },
    "protocol/test_payloads.py": {
        "idle-notification": "a_payload_made_by_us_has_the_field_order_of_the_real_program",
        "malformed": "a_payload_without_one_of_its_required_fields_is_text",
        "permission-variant": "a_permission_is_granted_by_success_or_by_the_decision",
    },
    "store/files/test_locks.py": {
        "foreign-locks": "a_living_lock_of_another_program_is_waited_for_and_then_named",
        "inbox-lock": "a_lock_that_another_program_lets_go_of_is_taken_soon",
    },
    "store/files/test_lockless_writers.py": {
        "unknown-fields": "unknown_fields_of_a_team_and_its_members_survive_our"
        "_rewrite_in_their_order",
    },
    "view/test_active_form.py": {
        "active-form": "screens_say_what_is_being_done_while_it_is_being_done",
    },
}

ELSEWHERE: dict[str, str] = _BY_ROW | {
    row: f"tests/unit/{path}::test_{name}"
    for path, tests in _UNIT.items()
    for row, name in tests.items()
}
