"""Every symptom of worker.md §22 that a person in a room can see has a test, and it is there.

The keys are the rows' numbers with a word on each; rows about the installer, the config file and
other adapters are not of this table. A renamed or deleted test fails here.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

PLACES = {
    "turns": "tests/shell/turns/test_symptoms.py",
    "ladder": "tests/shell/turns/test_ladder_rows.py",
    "machine": "tests/core/turns/test_ladder_machine.py",
    "desk": "tests/shell/turns/test_desk.py",
    "collaborators": "tests/shell/turns/test_collaborators.py",
    "access": "tests/core/turns/test_access.py",
    "answer": "tests/core/turns/test_answer.py",
    "offered": "tests/shell/relay/test_offered_files.py",
    "cap": "tests/shell/store/test_access.py",
    "tiers": "tests/e2e/test_tiers.py",
    "acp": "tests/shell/acp/test_turns.py",
    "acp-conversations": "tests/shell/acp/test_conversations.py",
    "acp-store": "tests/shell/acp/test_session_store.py",
    "acp-collaborators": "tests/shell/acp/test_collaborators.py",
    "worker": "tests/e2e/test_worker.py",
    "kills": "tests/e2e/faults/test_kills.py",
}

ROWS: dict[str, tuple[str, ...]] = {
    "1 wrong step, abandoned placeholder": (
        "turns::progress_shows_the_wrong_step_for_the_whole_of_a_long_tool",
        "turns::a_failed_progress_edit_abandons_the_placeholder_for_ever",
        "turns::a_placeholder_stays_at_on_it_for_ever",
        "machine::trailing_edge_shows_the_step_that_runs",
    ),
    "2 summaries full of other": (
        "turns::summaries_full_of_other_with_failures_unmarked",
        "answer::summary_lists_steps_in_start_order",
    ),
    "3 directed answers in the asking room": (
        "turns::directed_answers_are_published_into_the_asking_room",
        "turns::an_agents_own_no_send_swallows_a_reply",
        "ladder::redirect_stays_first_when_a_notice_was_not_posted",
        "ladder::lone_skip_marker_is_an_intended_silence",
    ),
    "4 turns that end with nothing": (
        "ladder::no_answer_otherwise_is_the_brokers_to_say",
        "desk::timeout_with_nothing_leaves_it_to_the_broker",
    ),
    "5 a fresh conversation on every message": (
        "acp-conversations::a_conversation_that_cannot_be_reopened_is_announced",
    ),
    "6 commands can never be approved": (
        "acp::the_owner_may_allow_commands",
        "acp-collaborators::commands_stay_refused_though_the_owner_allows_them",
    ),
    "7 a cold start for each message": ("acp::a_follow_up_meets_the_same_process",),
    "8 files an agent makes vanish": (
        "turns::files_an_agent_offers_vanish_silently",
        "offered::files_by_list_follow_those_of_markers",
        "offered::a_picture_of_this_turn_is_sent_and_then_gone",
        "acp::files_an_agent_offers",
    ),
    "9 errors lose their detail": (
        "acp::an_error_brings_its_useful_part",
        "acp::every_other_stop_reason_says_so",
    ),
    "11 a second placeholder": (
        "turns::a_restart_leaves_a_second_placeholder",
        "desk::rerun_posts_the_same_message_under_the_same_key",
        "kills::killed_around_the_placeholder",
    ),
    "17 a traceback for Ctrl-C, log lines that say nothing": (
        "worker::ctrl_c_stops_everything_and_leaves_no_process",
        "turns::log_lines_say_nothing_of_a_task",
    ),
    "21 one bad entry fails every task": (
        "acp-store::bad_entries_cost_only_themselves",
        "acp-store::a_broken_file_is_kept_aside",
        "acp-store::only_long_silence_is_pruned",
    ),
    "22 no local cap": (
        "tiers::a_cap_is_in_force_with_the_next_message",
        "cap::a_revocation_needs_no_restart",
        "cap::the_last_good_map_stays",
        "cap::broken_at_first_sight_makes_everybody_a_guest",
        "access::a_typo_caps_at_guest_and_is_named",
        "access::a_cap_only_lowers",
    ),
    "23 guests run": (
        "desk::guest_is_refused_without_the_adapter",
        "worker::a_guest_is_refused_aloud_and_the_agent_is_not_asked",
    ),
    "24 methods answered as done": ("acp::what_we_do_not_serve_is_no_method",),
    "25 our token in the agent's environment": ("acp::our_secrets_do_not_reach_the_agent",),
    "26 live markers in titles, names that add lines": (
        "turns::a_tool_titled_like_a_file_marker_uploads_the_file",
        "answer::no_marker_survives_in_our_own_lines",
        "acp::the_prompt_says_who_asks_and_carries_the_text_verbatim",
    ),
    "29 a flood on stderr": ("acp::noise_changes_nothing",),
}

PROMISES: dict[str, tuple[str, ...]] = {
    "two messages in order are answered in order": (
        "desk::second_message_waits_aloud_and_in_order",
        "desk::rooms_run_side_by_side",
    ),
    "20 turns stop in time": ("desk::stop_ends_deaf_agents_within_its_budget",),
    "nothing is left behind": (
        "turns::three_hundred_turns_over_fifty_rooms_leave_something_behind",
        "turns::the_thousandth_turn_costs_what_the_first_did",
    ),
    "D12 a stop behind the run it should stop": (
        "turns::a_stop_waits_in_the_queue_behind_the_run_it_should_stop",
    ),
    "D18 long answers": ("turns::an_answer_above_the_platforms_limit_vanishes",),
    "collaborators": (
        "collaborators::collaborators_run_side_by_side_each_on_its_own",
        "collaborators::nothing_of_a_secret_leaves_a_collaborators_turn",
        "collaborators::an_answer_left_by_an_earlier_run_keeps_its_guard",
        "offered::the_guard_judges_the_bytes_that_would_go_out",
        "tiers::a_collaborator_is_served_and_gets_no_secret",
    ),
    "mentions": ("collaborators::an_answer_mentions_the_members_it_names",),
}

NODES = [
    pytest.param(node, id=f"{name}: {node}")
    for table in (ROWS, PROMISES)
    for name, nodes in table.items()
    for node in nodes
]


@cache
def collected_from(path: Path) -> frozenset[str]:
    """The names of the test functions in a file."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    body = ast.parse(path.read_text("utf-8")).body
    return frozenset(node.name for node in body if isinstance(node, kinds))


@pytest.mark.parametrize("node", NODES)
def test_the_named_test_exists(node: str, repo_root: Path) -> None:
    """Each row points to a test function that pytest collects."""
    place, _, name = node.partition("::")
    assert f"test_{name}" in collected_from(repo_root / PLACES[place])


def test_no_row_of_the_room_is_without_a_test() -> None:
    """The rows that a person in a room feels, and those of safety that a turn can break."""
    numbers = [int(name.split()[0]) for name in ROWS]
    assert [*range(1, 10), 11, 17, *range(21, 27), 29] == numbers
    assert all(nodes for nodes in (*ROWS.values(), *PROMISES.values()))
