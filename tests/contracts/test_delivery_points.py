"""Every point that the specification of late results wants shown has a test, and it is there.

deferred-delivery.md §15, the tables of §7, §9 and §10, what §11 says, the field reports. As in
``test_relay_symptoms``: a renamed or deleted test fails here.
"""

from pathlib import Path

import pytest

from tests.contracts.test_relay_symptoms import collected_from

E2E, FAULTS = "tests/e2e/test_deliveries.py::test_{}", "tests/e2e/deliveries_faults/test_{}.py::"
SHELL = "tests/shell/delivery/test_{}.py::test_{}"


def e2e(module: str, name: str) -> str:
    """A test of ``tests/e2e/deliveries_faults``."""
    return f"{FAULTS.format(module)}test_{name}"


def shell(module: str, name: str) -> str:
    """A test of ``tests/shell/delivery``."""
    return SHELL.format(module, name)


def relay(name: str) -> str:
    """A test of the shipped relay's keys."""
    return f"tests/shell/embedded/test_keys.py::test_{name}"


MATRIX = e2e("matrix", "a_killed_worker_delivers_at_most_once")
MACHINE = "tests/core/delivery/machine/test_machine.py::test_{}"
STORE = "tests/shell/store/test_deliveries.py::test_{}"
LISTENER = "tests/shell/acp/test_listener.py::test_{}"

ANSWERS: dict[str, tuple[str, ...]] = {
    "7 Delivered, created": (e2e("tables", "ids_that_joining_would_confuse"),),
    "7 Delivered, replayed": (e2e("tables", "what_says_nothing_is_asked_again"),),
    "7 Delivered, unechoed": (e2e("tables", "a_last_part_without_its_echo_is_delivered"),),
    "7 Retry": (e2e("tables", "what_may_pass_is_a_retry_and_never_rejected"),),
    "7 Final unknown": (e2e("tables", "what_each_refusal_of_the_relay_comes_to"),),
    "7 Final conflict": (e2e("tables", "a_known_id_is_looked_at_before_its_binding"),),
    "7 Final rejected": (e2e("tables", "a_bad_file_is_found_before_the_first_post"),),
    "7 Final expired": (e2e("tables", "23_hours_after_first_seen"),),
    "7 Final not_mine": (e2e("tables", "a_binding_of_nobody_or_of_another_worker"),),
}
ORDER: dict[str, tuple[str, ...]] = {
    "9.1 invalid params": (e2e("tables", "broken_requests_name_their_field"),),
    "9.2 store unreadable": (
        e2e("field_reports", "a_store_that_breaks_while_running_answers_retry"),
    ),
    "9.3 known id": (
        e2e("tables", "a_known_id_is_looked_at_before_its_binding"),
        e2e("tables", "resends_of_a_running_delivery_are_one_run"),
        e2e("tables", "a_lost_response_whose_binding_expired_meanwhile"),
    ),
    "9.4 disabled": (e2e("tables", "a_post_without_its_echo_is_posted_and_withdraws"),),
    "9.5 binding": (
        e2e("tables", "a_binding_of_nobody_or_of_another_worker"),
        e2e("security", "a_collaborator_who_is_no_longer_let_in"),
    ),
    "9.6 guard": (
        e2e("security", "a_secret_on_the_owners_binding_while_a_collaborator_is_listed"),
    ),
    "9.7 first-seen": (e2e("tables", "first_seen_that_cannot_be_written_is_a_retry"),),
    "9.8 files": (
        e2e("tables", "a_bad_file_is_found_before_the_first_post"),
        e2e("tables", "a_continued_delivery_whose_file_is_gone"),
    ),
    "9.9 parts": (shell("life", "a_slow_delivery_blocks_no_other"), MATRIX),
}
BROKER: dict[str, tuple[str, ...]] = {
    "10 200 with echo": (
        e2e("field_reports", "what_a_background_job_finds_later_reaches_the_room"),
    ),
    "10 200 that is not that": (e2e("tables", "what_says_nothing_is_asked_again"),),
    "10 200 without echo": (
        e2e("tables", "a_post_without_its_echo_is_posted_and_withdraws"),
        e2e("tables", "a_last_part_without_its_echo_is_delivered"),
    ),
    "10 409 running": (e2e("tables", "what_says_nothing_is_asked_again"),),
    "10 409 unknown, conflict, 413, 403, 404, 400, 422": (
        e2e("tables", "what_each_refusal_of_the_relay_comes_to"),
    ),
    "10 401": (
        e2e("tables", "a_401_is_not_the_deliverys_fault"),
        shell("posting", "a_rejected_bearer_is_told_to_the_auth_recovery"),
    ),
    "10 408, 429, 5xx": (e2e("tables", "what_may_pass_is_a_retry_and_never_rejected"),),
    "10 no answer, response lost": (
        e2e("tables", "what_says_nothing_is_asked_again"),
        shell("posting", "a_lost_response_is_asked_for_again"),
    ),
    "10 a cooldown of ours": (MATRIX, shell("posting", "a_cooldown_of_the_room_is_waited_for")),
    "10 23 hours": (e2e("tables", "23_hours_after_first_seen"),),
    "10 the notice": (MATRIX, shell("life", "an_owed_notice_is_posted_by_the_next_start")),
    "10 a stop": (
        shell("life", "a_stop_lets_running_parts_finish"),
        shell("life", "what_a_stop_cuts_off_goes_on_at_the_next_start"),
    ),
}
RELAY: dict[str, tuple[str, ...]] = {
    "11 probe": (
        "tests/shell/embedded/test_rooms.py::test_capabilities",
        relay("the_probe_needs_the_bearer_and_changes_nothing"),
    ),
    "11 scope": (relay("a_key_belongs_to_one_identity"),),
    "11 life": (
        "tests/shell/embedded/test_rooms.py::test_keys_live_a_day_and_belong_to_one_identity",
    ),
    "11 digest": (relay("a_key_is_bound_to_method_room_and_body"),),
    "11 replayed": (
        relay("the_first_response_is_replayed_to_the_byte"),
        relay("a_lost_response_is_replayed"),
        relay("many_at_once_are_one_post"),
    ),
    "11 running, unknown": (
        relay("a_running_claim_is_a_lease_of_a_minute"),
        relay("another_body_conflicts_with_what_still_runs"),
    ),
    "11 a refusal releases": (relay("a_refused_post_releases_its_key"),),
    "11 no header": (relay("without_a_key_all_is_as_it_was"),),
}
SHOWN: dict[str, tuple[str, ...]] = {
    "15.2 crash points": (MATRIX, e2e("matrix", "the_page_has_every_row")),
    "15.3 histories": (
        MACHINE.format("every_history_keeps_the_promises"),
        MACHINE.format("a_planted_fault_is_found"),
    ),
    "15.4 ids": (e2e("tables", "ids_that_joining_would_confuse"),),
    "15.5 the connection closes": (
        "tests/e2e/deliveries/test_demo.py::test_a_listener_that_is_killed_amid_a_delivery",
        shell("life", "a_connection_that_closes_ends_no_delivery"),
    ),
    "15.6 sender removed, opt-out unset": (
        e2e("security", "a_collaborator_who_is_no_longer_let_in"),
    ),
    "15.6 sender demoted": (e2e("security", "a_collaborator_who_was_made_a_guest"),),
    "15.6 lost response, expired binding": (
        e2e("tables", "a_lost_response_whose_binding_expired_meanwhile"),
    ),
    "15.6 known id, other binding; asked for after expiry": (
        e2e("tables", "a_known_id_is_looked_at_before_its_binding"),
    ),
    "15.6 a folder outside the delivery root": (
        e2e("security", "no_way_to_another_conversations_file"),
        "tests/shell/relay/test_keyed.py::test_a_folder_that_is_not_one_strictly_inside_the_root",
    ),
    "15.6 a Turn root with export/ in it": (E2E.format("an_export_folder_inside_a_root"),),
    "15.6 on a Turn connection": (
        e2e("tables", "a_turns_connection_takes_no_deliveries"),
        LISTENER.format("the_same_agent_on_a_turns_connection"),
    ),
    "15.6 older files disagree": (
        e2e("field_reports", "an_older_record_that_disagrees_on_its_worker_mints_nothing"),
    ),
    "13 notify": (e2e("tables", "a_word_at_once"),),
    "10,000 entries": (shell("life", "ten_thousand_entries"),),
    "10 MiB text": (e2e("tables", "broken_requests_name_their_field"),),
    "hostile JSON": (
        shell("answers", "hostile_json"),
        LISTENER.format("hostile_params"),
        "tests/core/acp/test_jsonrpc.py::test_half_an_emoji_in_an_extension_is_not_repaired",
    ),
    "planted links": (
        e2e("security", "links_planted_in_an_export_folder_are_not_followed"),
        shell("folders", "planted_links_are_not_followed"),
    ),
    "exchanged between judgement and post": (
        e2e("security", "a_file_exchanged_between_judgement_and_post"),
    ),
    "kill -9 of the store": (STORE.format("kill_9_loses_nothing_that_was_said_to_be_recorded"),),
    "the page": (
        e2e("page", "a_late_result_is_marked_and_an_answer_is_not"),
        e2e("page", "a_late_result_during_another_turn"),
        "tests/e2e/browser/test_room_late.py::test_what_arrived_later_is_marked",
    ),
}
FIELD: dict[str, tuple[str, ...]] = {
    "D1": (
        e2e("field_reports", "a_restart_does_not_send_again_what_was_delivered"),
        e2e("field_reports", "a_kill_before_the_record_loses_what_nobody_sends_again"),
    ),
    "D2": (e2e("field_reports", "what_can_never_succeed_is_not_tried_again_at_every_start"),),
    "D4": (e2e("field_reports", "what_a_background_job_finds_later_reaches_the_room"),),
    "D5": (
        e2e("field_reports", "a_late_result_does_not_land_in_another_room"),
        e2e("field_reports", "a_file_of_another_conversation_is_not_delivered"),
    ),
    "D17 b": (
        e2e("field_reports", "a_broken_delivery_store_is_not_taken_for_an_empty_one"),
        e2e("field_reports", "a_store_that_breaks_while_running_answers_retry"),
    ),
    "D17 c": (e2e("field_reports", "an_older_record_without_its_worker_id_mints_nothing"),),
}

ROWS = [
    pytest.param(node, id=f"{name}: {node.rpartition('::test_')[2]}")
    for table in (ANSWERS, ORDER, BROKER, RELAY, SHOWN, FIELD)
    for name, nodes in table.items()
    for node in nodes
]


@pytest.mark.parametrize("node", ROWS)
def test_the_named_test_exists(node: str, repo_root: Path) -> None:
    """Each row points to a test function that pytest collects."""
    path, _, name = node.partition("::")
    assert name in collected_from(repo_root / path)
