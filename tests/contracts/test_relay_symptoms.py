"""Every weakness and fault that the relay documents name has a test, and the test is there.

The tables say where: ``file::test``. A renamed or deleted test fails here, so that none of these
promises loses its proof unnoticed.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

CORE, SHELL, STORE, FAULTS = (
    "tests/core/relay/test_{}.py::test_{}",
    "tests/shell/relay/test_{}.py::test_{}",
    "tests/shell/store/test_{}.py::test_{}",
    "tests/e2e/faults/test_{}.py::test_{}",
)
TURNS = "tests/shell/turns/test_{}.py::test_{}"


def core(*names: str) -> str:
    """A test of ``tests/core/relay``: module, name."""
    return CORE.format(*names)


def shell(*names: str) -> str:
    """A test of ``tests/shell/relay``."""
    return SHELL.format(*names)


def store(*names: str) -> str:
    """A test of ``tests/shell/store``."""
    return STORE.format(*names)


def faults(*names: str) -> str:
    """A test of ``tests/e2e/faults``."""
    return FAULTS.format(*names)


STARS: dict[str, tuple[str, ...]] = {
    "1 answers lost": (
        shell("symptoms", "an_answer_with_odd_line_ends_is_not_lost_at_the_next_write"),
        store("journal", "lone_surrogates_do_not_make_the_journal_unwritable"),
        store("journal", "a_damaged_journal_is_never_taken_for_an_empty_one"),
        core("text_out", "half_a_character_in_an_answer_does_not_make_the_journal_unwritable"),
        core("envelope", "one_bad_message_does_not_lose_the_batch"),
    ),
    "2 quadratic parsing": (
        core("linear_time", "an_answer_of_a_hostile_shape_is_parsed_in_linear_time"),
        core("linear_time", "a_message_of_a_hostile_shape_is_read_in_linear_time"),
        core("linear_time", "a_batch_of_a_hostile_shape_is_read_in_linear_time"),
    ),
    "3 an unclosed marker eats the answer": (
        core("markers", "an_unclosed_file_marker_does_not_eat_the_rest_of_the_answer"),
        core("markers", "a_value_does_not_span_lines"),
        core("markers", "a_path_is_not_delivered_by_an_old_mask"),
    ),
    "4 a file that is shown is uploaded": (
        core("markers", "a_second_kind_of_fence_inside_a_fence_does_not_upload"),
        core("markers", "a_shorter_fence_inside_a_fence_does_not_upload"),
        core("markers", "a_file_shown_in_a_quoted_fence_is_not_uploaded"),
        core("markers", "a_file_shown_indented_under_a_redirect_is_not_uploaded"),
    ),
    "4b the bearer behind encoded dots": (
        core("media", "the_bearer_is_not_sent_to_an_encoded_way_out"),
        core("media", "the_bearer_is_not_sent_to_a_lookalike"),
    ),
    "4c any address is fetched": (shell("files", "only_the_relay_itself_is_fetched_from"),),
    "4d a refused room is a revoked bearer": (
        faults("lost_answers", "a_403_or_404_in_one_room_is_no_revoked_bearer"),
        shell("symptoms", "a_refusal_in_one_room_does_not_silence_the_others"),
        shell("polling", "a_401_elsewhere_does_not_stop_polling"),
    ),
    "5 secrets inside a root": (shell("egress", "secrets_inside_a_root_are_refused"),),
    "6 a lost ack is never repeated": (
        shell("polling", "acks_that_get_lost_are_repeated"),
        shell("machine", "a_planted_fault_is_found"),
        faults("lost_answers", "a_lost_ack_is_sent_again"),
    ),
    "7 a refused result for ever": (
        shell("answers", "what_is_refused_for_good_is_parked_after_five_minutes"),
        shell("answers", "an_answer_too_large_is_cut_once"),
        shell("answers", "an_answer_too_large_even_when_cut_is_parked"),
    ),
    "8 hot loop shown as connected": (
        shell("polling", "an_answer_without_tasks_does_not_spin"),
        shell("polling", "an_instant_empty_poll_is_paced"),
    ),
    "9 a result for a dead task counts as delivered": (
        shell("symptoms", "an_answer_that_went_nowhere_is_posted_when_its_task_returns"),
        shell("answers", "a_lease_that_is_gone_shows_in_the_counts"),
    ),
    "10 a journal write per task": (
        shell("polling", "five_hundred_tasks_are_one_commit"),
        store("journal", "callers_at_the_same_time_share_one_commit"),
    ),
    "11 a standby deletes the holder's files": (
        shell("symptoms", "a_standby_does_not_delete_the_holders_files"),
    ),
    "12 a secret in the status file": (
        core("credential", "a_bad_secret_cannot_reach_a_header_or_a_status_file"),
        core("credential", "a_misspelt_address_never_becomes_the_secret"),
        shell("http", "a_bearer_that_is_no_header_is_not_quoted"),
        shell("symptoms", "what_the_relay_says_is_not_repeated_in_the_status_file"),
        shell("polling", "the_status_file_holds_the_fields_and_no_secret"),
    ),
    "13 a displaced client leases one more": (
        shell("polling", "a_displaced_client_stops_for_good"),
    ),
    "14 a tier cleaned into owner": (
        core("envelope", "a_tier_is_never_cleaned_into_owner"),
        core("envelope", "a_tier_that_cleaning_changes_is_empty"),
        core("envelope", "a_duplicated_member_grants_nothing"),
        core("envelope", "a_word_is_never_cleaned_into_team"),
    ),
    "15 a success that says no": (
        shell("room_ops", "a_success_that_says_no_is_a_failure"),
        shell("symptoms", "a_file_the_relay_says_no_to_is_not_called_sent"),
    ),
    "16 a file posted twice": (
        shell("files", "a_turn_run_again_after_a_crash_posts_no_file_twice"),
        faults("kills", "killed_around_a_file_post_shows_the_file_once"),
    ),
    "17 our name unknown in files": (
        core("credential", "our_own_name_comes_first_in_a_file"),
        core("credential", "spaces_round_the_equals_sign_do_not_become_the_secret"),
    ),
    "18 heartbeat off for life, recheck_s stays": (
        shell("symptoms", "one_missing_heartbeat_route_is_not_for_life"),
        faults("pollers", "a_record_left_by_the_reference_is_waited_for"),
    ),
    "19 attachments without bounds": (
        shell("files", "too_many_attachments_are_bounded"),
        shell("files", "one_slow_fetch_holds_nobody"),
    ),
    "20 answers without bounds": (
        shell("http", "a_dripping_answer_meets_the_total_deadline"),
        shell("http", "an_endless_answer_is_cut_off"),
    ),
    "21 IPv6 thrown away": (shell("resolver", "ipv4_comes_first_and_ipv6_is_not_dropped"),),
    "22 a guard per folder": (
        faults("pollers", "two_workspaces_on_one_token_do_not_split_the_tasks"),
        shell("pollers", "a_dead_holders_bearer_is_taken_over_within_15_seconds"),
    ),
    "23 a marker at the end of a long text": (
        core("envelope", "a_file_marker_at_the_end_of_a_long_text_is_still_read"),
    ),
    "24 a body dropped without a sign": (
        core("envelope", "a_body_that_never_comes_to_rest_is_marked_and_fetches_nothing"),
    ),
    "25 one cooldown for all rooms": (
        shell("room_ops", "a_refusing_room_cools_alone"),
        faults("lost_answers", "one_failed_room_op_costs_other_rooms_nothing"),
    ),
    "26 an answer about skip markers is swallowed": (
        core("markers", "a_skip_inside_prose_is_put_in_backticks"),
        core("markers", "a_skip_that_stands_alone_is_an_intended_silence"),
        TURNS.format("ladder_rows", "discussed_skip_marker_is_prose"),
    ),
    "27 a bracket in a file name": (
        core("prepared", "a_name_with_a_bracket_is_refused_with_a_hint"),
    ),
    "28 24.0 MB of at most 24.0 MB": (
        shell("symptoms", "a_file_over_the_limit_is_not_said_to_be_as_large_as_the_limit"),
    ),
}

MEASURED: dict[str, tuple[str, ...]] = {
    "one result post answered 500, three, garbage": (
        shell("answers", "a_failed_result_post_is_repeated_soon"),
        faults("lost_answers", "a_result_whose_response_was_lost_is_posted_once"),
    ),
    "result posts take long, two rooms answer": (
        shell("answers", "slow_posts_go_side_by_side_but_in_order_in_a_room"),
    ),
    "final edit applied, response lost": (
        faults("lost_answers", "a_final_edit_whose_response_was_lost_is_not_posted_again"),
    ),
    "placeholder posted, response lost": (
        faults("lost_answers", "a_placeholder_whose_response_was_lost_does_not_stay"),
    ),
    "one progress edit answered 500": (
        TURNS.format("ladder_rows", "failed_progress_edit_only_skips_that_edit"),
        faults("lost_answers", "one_failed_progress_edit_is_mended_by_the_next"),
    ),
    "any one failed room op": (
        faults("lost_answers", "one_failed_room_op_costs_other_rooms_nothing"),
    ),
    "file uploaded, response lost": (
        faults(
            "lost_answers",
            "an_upload_whose_response_was_lost_is_one_file_and_no_false_sentence",
        ),
    ),
    "one 401 on a poll": (faults("rotation", "one_401_on_a_poll_does_not_end_the_process"),),
    "kill -9 between final edit and journal": (
        faults("kills", "killed_around_the_final_edit_is_not_answered_twice"),
        faults("kills", "killed_around_the_result_post"),
        faults("kills", "killed_once_the_result_was_retired"),
    ),
    "kill -9 after the placeholder, after the ack, mid-turn": (
        faults("kills", "killed_around_the_placeholder"),
        faults("kills", "killed_between_a_polls_answer_and_the_journal"),
        faults("kills", "killed_between_acceptance_and_ack"),
        faults("kills", "killed_mid_turn_goes_on_in_the_same_message"),
    ),
    "kill -9 after a file went out": (
        faults("kills", "killed_around_a_file_post_shows_the_file_once"),
    ),
    "200 tasks, killed at 60 done": (
        faults("many", "200_tasks_killed_at_60_done"),
        shell("restarts", "a_restart_with_200_open_tasks_polls_at_once"),
    ),
    "plain stop and start of an idle worker": (
        faults("endurance", "an_idle_worker_stops_and_starts_without_a_wait"),
        shell("polling", "stopping_while_idle_is_immediate"),
    ),
    "100 tasks, 18 % of calls failing": (
        faults("many", "100_tasks_with_18_percent_of_calls_failing"),
    ),
    "1,000 tasks accepted": (store("growth", "the_thousandth_task_costs_what_the_first_did"),),
    "200 turns hanging": (faults("endurance", "hanging_turns_cost_no_threads"),),
    "not worse": (
        faults("leases", "work_outlasting_its_lease_is_done_once"),
        shell("answers", "one_bad_answer_does_not_hold_the_room"),
        faults("endurance", "slow_edits_in_one_room_hold_up_no_other"),
        faults("endurance", "a_relay_whose_acks_all_fail_still_gets_its_answer"),
        faults("outages", "a_connection_cut_mid_poll_costs_a_moment"),
        shell("answers", "an_answered_task_served_again_is_closed_in_silence"),
    ),
}

FIELD: dict[str, tuple[str, ...]] = {
    "D3": (
        shell("long_outages", "a_storm_of_503_for_90_seconds"),
        shell("long_outages", "an_answer_is_posted_within_a_minute_of_the_end_of_any_storm"),
        faults("outages", "a_storm_of_503_does_not_use_up_the_retries_of_an_answer"),
    ),
    "D14": (faults("leases", "messages_older_than_the_start_are_not_dropped"),),
    "D15": (faults("leases", "work_outlasting_its_lease_is_done_once"),),
    "D16": (
        faults("pollers", "already_has_an_active_session_for_days"),
        faults("pollers", "a_record_left_by_the_reference_is_waited_for"),
        shell("pollers", "a_strangers_record_is_taken_over_within_15_seconds_of_going_stale"),
        faults("pollers", "two_workspaces_on_one_token_do_not_split_the_tasks"),
    ),
    "D18": (faults("answers", "answers_above_the_platforms_limit_vanish_without_a_word"),),
    "D19": (
        faults("answers", "files_that_may_not_leave_are_named_with_a_reason"),
        faults("answers", "a_file_name_over_two_lines_costs_only_its_line"),
        shell("egress", "a_link_swapped_in_while_we_look_is_never_followed"),
        shell("egress", "a_link_in_the_place_of_a_tasks_own_folder_leads_nowhere"),
    ),
}

ROWS = [
    pytest.param(node, id=f"{name}: {node.rpartition('::test_')[2]}")
    for table in (STARS, MEASURED, FIELD)
    for name, nodes in table.items()
    for node in nodes
]


@cache
def collected_from(path: Path) -> frozenset[str]:
    """The names of the test functions of a file."""
    tree = ast.parse(path.read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, kinds))


@pytest.mark.parametrize("node", ROWS)
def test_the_named_test_exists(node: str, repo_root: Path) -> None:
    """Each row points to a test function that pytest collects."""
    path, _, name = node.partition("::")
    assert name in collected_from(repo_root / path)


def test_no_star_and_no_report_is_without_a_test() -> None:
    """28 stars and the three that were put in between; the six reports of this step."""
    numbers = [name.split()[0] for name in STARS]
    wanted = [str(number) for number in range(1, 29)]
    wanted[4:4] = ["4b", "4c", "4d"]
    assert numbers == wanted
    assert list(FIELD) == ["D3", "D14", "D15", "D16", "D18", "D19"]
    assert len(MEASURED) == 17
