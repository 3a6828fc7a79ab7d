"""Each known quirk of a real agent, and each ending of a turn, has a test that exists.

The left column is what an agent does beside the protocol (or how a turn ends); the right one is
where the scripted agent does it, or where it is shown that it cannot matter to us.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

QUIRKS_FILE = "shell/acp/test_quirks.py"
TURNS = "shell/acp/test_turns.py"
CONVERSATIONS = "shell/acp/test_conversations.py"
POOL = "shell/acp/test_pool.py"
RECORDED = "shell/acp/test_transcripts.py::test_a_recording_is_lived_through"
REAL = "agents/test_real_agents.py"
E2E = "e2e/test_agents_end.py"


def q(name: str) -> str:
    return f"{QUIRKS_FILE}::test_{name}"


QUIRKS: dict[str, dict[str, str]] = {
    "claude 0.64.2": {
        "refusing option first": q("options_are_chosen_by_kind"),
        "title and rawInput come with an update": q("what_an_earlier_update_said_counts"),
        "shell requests have no location": q("a_command_is_never_made_safe_by_a_path"),
        "takes back request 0 on cancel": q("a_request_that_the_agent_takes_back"),
        "exits on a batch": q("we_write_objects_only"),
        "retries for a minute, repeating text": q("a_retried_answer_is_said_once_however_often"),
        "only the deadline ends that": f"{E2E}::test_a_turn_that_ignores_its_deadline",
        "API errors as text and as error": q("an_error_text_and_an_error_are_both_told"),
        "token cut is an error with errorKind": q("errors_of_every_shape"),
        "no login shows at the prompt": f"{TURNS}::test_a_missing_login_is_advised_on",
        "updates after cancel and answer": q("updates_between_cancel_and_answer_are_heard"),
        "native part not installed": f"{POOL}::test_preflight_shows_why_it_would_not_start",
    },
    "claude 0.101.0": {
        "default mode does not ask": q("known_agents_are_put_into_their_asking_mode"),
        "notice chunk without messageId": q("a_chunk_without_an_id_is_a_message_of_its_own"),
        "other option ids": q("options_are_chosen_by_kind"),
    },
    "codex 0.16.0": {
        "errors without id": q("answers_that_belong_to_nothing_are_passed_over"),
        "UUID request ids": q("request_ids_may_be_texts"),
        "rawInput.cwd in every command": q("a_command_is_never_made_safe_by_a_path"),
        "rejected turn is cancelled": q("a_refused_step_may_end_the_turn_as_cancelled"),
        "second prompt never answered": (
            f"{CONVERSATIONS}::test_turns_of_one_conversation_never_overlap"
        ),
        "model errors in data.message": q("errors_of_every_shape"),
        "warning chunk before the answer": q("a_chunk_without_an_id_is_a_message_of_its_own"),
        "stays alive after EOF": q("one_that_stays_after_its_input_ended_is_ended"),
        "warnings on stderr": q("a_slow_start_and_a_noisy_one"),
        "nothing seen before the request": (
            q("a_call_may_first_be_seen_in_its_request_or_its_end")
        ),
    },
    "codex-acp 2.6.0": {
        "usage null in a cancelled result": q("updates_between_cancel_and_answer_are_heard"),
        "initialize fails with its own code": (
            f"{POOL}::test_preflight_shows_why_it_would_not_start"
        ),
        "everything else is -32600 then": q("errors_of_every_shape"),
        "warning text amid a replay": q("history_mixed_with_news_is_history"),
        "leaves seconds after EOF": q("one_that_takes_its_time_may_leave_by_itself"),
        "answers null ids": q("answers_that_belong_to_nothing_are_passed_over"),
    },
    "gemini 0.61.0": {
        "replay after the load response": (
            f"{CONVERSATIONS}::test_a_restart_continues_and_says_nothing_old"
        ),
        "holds a cancelled turn until answered": q("a_cancel_before_the_agent_asks"),
        "no tool_call for asked calls": q("a_call_may_first_be_seen_in_its_request_or_its_end"),
        "error codes are HTTP statuses": q("errors_of_every_shape"),
        "token cut looks like end_turn": RECORDED,
        "second prompt cancels the first": (
            f"{CONVERSATIONS}::test_turns_of_one_conversation_never_overlap"
        ),
        "image beside a resource_link is lost": q("we_write_objects_only"),
        "auxiliary model call first": f"{REAL}::test_a_whole_turn_with_commands_allowed",
        "a record loaded in its own minute is lost": (
            f"{CONVERSATIONS}::test_a_conversation_that_cannot_be_reopened_is_announced"
        ),
    },
    "qwen 0.15.10": {
        "load of an unknown id succeeds, empty": (
            f"{CONVERSATIONS}::test_a_conversation_that_cannot_be_reopened_is_announced"
        ),
        "advertises resume, lacks it": (
            f"{CONVERSATIONS}::test_a_restart_continues_and_says_nothing_old"
        ),
        "images accepted, not seen": (f"{TURNS}::test_a_picture_goes_in_and_what_cannot_is_named"),
        "resource_link becomes text": q("we_write_objects_only"),
        "retries repeat text": q("a_retried_answer_is_said_once_however_often"),
        "holds a cancelled turn": q("a_cancel_before_the_agent_asks"),
        "last chunk empty with usage": q("empty_chunks_and_strange_meta_change_nothing"),
    },
    "qwen 0.24.4": {
        "one line of 563 KB": q("a_greeting_of_half_a_megabyte"),
        "default mode auto": q("known_agents_are_put_into_their_asking_mode"),
        "rejected tool ends without text": q("a_refused_step_may_end_the_turn_without_a_word"),
    },
    "opencode 1.18.33": {
        "calls fs/write_text_file unasked": f"{TURNS}::test_what_we_do_not_serve_is_no_method",
        "rejected tool ends without text": q("a_refused_step_may_end_the_turn_without_a_word"),
        "silent retries for a minute": f"{E2E}::test_a_turn_that_ignores_its_deadline",
        "image only if its model may": f"{TURNS}::test_a_picture_goes_in_and_what_cannot_is_named",
        "title of a write is its path": q("a_refused_step_may_end_the_turn_without_a_word"),
        "location of a command is cwd": q("a_command_is_never_made_safe_by_a_path"),
        "slow start": q("a_slow_start_and_a_noisy_one"),
    },
    "vibe 3.0.2": {
        "request carries only the id": q("what_an_earlier_update_said_counts"),
        "echoes the prompt": q("an_echo_of_the_prompt_is_not_an_answer"),
        "answer in one chunk": q("a_greeting_of_half_a_megabyte"),
        "-31002 for a bad key": q("errors_of_every_shape"),
        "seven copies, then max_tokens": q("a_retried_answer_is_said_once_however_often"),
        "may outlive EOF": q("one_that_stays_after_its_input_ended_is_ended"),
        "default mode accepts edits": q("known_agents_are_put_into_their_asking_mode"),
    },
    "fast-agent 0.10.48": {
        "never asks": q("an_agent_that_never_asks_is_only_told_of"),
        "_meta of a strange shape": q("empty_chunks_and_strange_meta_change_nothing"),
        "401 is a refusal with an apology": q("a_refusal_with_an_apology_keeps_the_apology"),
        "a batch stops its reader": q("we_write_objects_only"),
    },
    "cline, pi": {
        "-32000 at session/new": f"{TURNS}::test_a_missing_login_is_advised_on",
        "hangs in session/new": q("one_that_hangs_in_session_new_can_be_cut_off"),
    },
}

ENDINGS: dict[str, str] = {
    "end_turn": f"{TURNS}::test_a_turn_streams_text_steps_and_thoughts",
    "cancelled, not by us": f"{TURNS}::test_every_other_stop_reason_says_so",
    "refusal": f"{TURNS}::test_every_other_stop_reason_says_so",
    "max_tokens": f"{TURNS}::test_every_other_stop_reason_says_so",
    "max_turn_requests": f"{TURNS}::test_every_other_stop_reason_says_so",
    "unknown stop reason": f"{TURNS}::test_every_other_stop_reason_says_so",
    "deadline, then cancelled": f"{REAL}::test_a_turn_over_its_deadline",
    "deadline, then end_turn anyway": (
        "shell/acp/test_quirks.py::test_a_turn_that_finishes_in_spite_of_the_cancel"
    ),
    "deadline, ignored": f"{E2E}::test_a_turn_that_ignores_its_deadline",
    "child died": f"{TURNS}::test_a_crash_costs_one_turn",
    "-32000 anywhere": f"{TURNS}::test_a_missing_login_is_advised_on",
    "other JSON-RPC error": f"{TURNS}::test_an_error_brings_its_useful_part",
    "executable vanished": f"{TURNS}::test_an_agent_that_vanished_is_a_sentence",
    "anything else": f"{TURNS}::test_a_line_over_the_limit_fails_the_turn",
    "dialled, connection lost": "shell/acp/test_dial.py::test_a_lost_connection_is_one_failed_turn",
    "dialled, deadline ignored": f"{E2E}::test_a_dialled_agent_from_message_to_answer",
}

FIELD_REPORTS: dict[str, str] = {
    "D6": f"{CONVERSATIONS}::test_a_conversation_that_cannot_be_reopened_is_announced",
    "D7": "shell/acp/test_peer.py::test_five_hundred_chunks_meet_a_slow_handler_in_order",
    "D8": q("ten_megabytes_in_and_three_out"),
    "D9": q("answers_that_belong_to_nothing_are_passed_over"),
    "D10": q("a_death_during_initialize_costs_one_turn"),
    "D11": f"{E2E}::test_a_stop_of_the_worker_ends_the_whole_group",
    "D12": f"{TURNS}::test_a_cancel_ends_the_turn_and_keeps_the_process",
    "D13": q("without_a_way_to_allow_it_is_refused"),
}

ROWS = [
    *((f"{agent}: {quirk}", at) for agent, rows in QUIRKS.items() for quirk, at in rows.items()),
    *ENDINGS.items(),
    *FIELD_REPORTS.items(),
]


@cache
def names_in(file: str) -> frozenset[str]:
    """The test functions of a file."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, kinds))


@pytest.mark.parametrize(("what", "where"), ROWS, ids=[what for what, _ in ROWS])
def test_it_is_tried(what: str, where: str) -> None:
    """The test named for a quirk or an ending is there."""
    file, _, name = where.partition("::")
    assert name in names_in(file), f"{what}: no {where}"
