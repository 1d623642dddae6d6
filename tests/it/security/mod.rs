//! The security checklist, black box: a row for each check, with the test that holds it or the reason why it does not apply.
//!
//! Rows that other parts test already are named here and stand there; what nobody else holds is in the files beside.

mod accounts;
mod bots;
mod cases;
mod may;
mod pages;
mod parsers;
mod plain_http;
mod sockets;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use self::Held::{No, Partly, Yes};

/// How a row is held.
enum Held {
    /// By these tests.
    Yes(&'static [&'static str]),
    /// By these tests, but for what `docs/SECURITY.md` says under the row's name.
    Partly(&'static [&'static str]),
    /// It does not apply; `docs/SECURITY.md` says why.
    No,
}

const ROWS: &[(&str, Held)] = &[
    ("S1", Yes(&["each_route_is_listed_and_open_to_exactly_those_whom_its_role_names"])),
    ("S2", Yes(&["every_login_gives_a_new_session_and_ends_the_one_it_came_with", "a_self_made_session_id_is_never_adopted"])),
    (
        "S3",
        Yes(&[
            "every_login_gives_a_new_session_and_ends_the_one_it_came_with",
            "every_answer_carries_its_guards_and_a_shop_behind_tls_more_of_them",
        ]),
    ),
    (
        "S4",
        Yes(&[
            "sockets_of_an_ended_session_are_closed_and_hear_nothing_more",
            "who_logs_in_after_another_in_the_same_browser_inherits_nothing_and_ends_what_was_open",
        ]),
    ),
    ("S5", Yes(&["after_a_change_of_password_a_browser_goes_on_with_a_new_session_and_the_others_end"])),
    ("S6", Yes(&["a_session_that_ends_in_whatever_way_closes_its_sockets_within_two_seconds"])),
    (
        "S7",
        Yes(&[
            "every_answer_carries_its_guards_and_a_shop_behind_tls_more_of_them",
            "a_login_holds_by_http_and_by_a_proxy_with_tls_and_says_why_where_it_cannot",
            "a_proxy_that_says_tls_gets_secure_cookies_whatever_the_public_address_says",
        ]),
    ),
    ("S8", Yes(&["ten_thousand_tokens_are_long_never_alike_and_kept_as_hashes"])),
    (
        "S9",
        Yes(&[
            "use_keeps_a_session_alive_until_its_last_day_and_rest_ends_it",
            "a_busy_session_is_written_once_a_minute_at_most",
        ]),
    ),
    ("S10", Yes(&["two_identities_in_one_request_and_tokens_in_odd_places_are_nobody"])),
    ("S11", Yes(&["two_identities_in_one_request_and_tokens_in_odd_places_are_nobody"])),
    (
        "S12",
        Yes(&[
            "guesses_at_one_account_get_slower_from_wherever_they_come_and_the_owner_gets_in",
            "two_hundred_guesses_are_limited_whatever_address_they_claim_and_the_owner_gets_in",
        ]),
    ),
    (
        "S13",
        Yes(&[
            "an_unknown_phone_and_a_wrong_password_look_and_last_alike",
            "an_unknown_phone_that_is_answered_without_a_hash_is_noticed",
        ]),
    ),
    ("S14", No),
    ("S15", Yes(&["passwords_have_a_length_and_no_other_rule_and_nothing_is_cut_off"])),
    ("S16", Partly(&["hashes_have_the_recommended_cost_and_a_salt_of_their_own"])),
    ("S17", Partly(&["a_crowd_at_the_login_is_told_busy_or_served_and_purchases_go_on"])),
    ("S18", Yes(&["a_new_shop_has_no_user_and_a_password_is_never_on_a_command_line"])),
    ("S19", Yes(&["a_login_leads_to_our_own_paths_only"])),
    ("S20", Yes(&["a_forged_request_is_refused_whatever_header_it_carries"])),
    (
        "S21",
        Yes(&[
            "nobody_buys_in_the_name_of_another_or_touches_his_order",
            "an_order_of_another_reads_like_a_missing_one_by_every_way_that_leads_to_it",
        ]),
    ),
    ("S22", Partly(&["an_order_id_is_the_same_digit_for_digit_everywhere"])),
    (
        "S23",
        Yes(&[
            "each_route_is_listed_and_open_to_exactly_those_whom_its_role_names",
            "no_spelling_of_an_admins_address_lets_a_user_in",
        ]),
    ),
    ("S24", Yes(&["fields_that_nobody_asks_for_change_nothing"])),
    ("S25", Yes(&["real_answers_are_as_described", "no_answer_holds_a_hash_or_anything_of_another_user"])),
    ("S26", Yes(&["who_is_no_admin_any_more_is_refused_with_his_next_request_and_his_control_room_falls_silent"])),
    (
        "S27",
        Yes(&[
            "clicks_outside_the_window_are_refused_and_leave_no_trace",
            "the_begin_belongs_to_the_sale_and_the_end_does_not_on_the_page_and_at_the_gate",
        ]),
    ),
    (
        "S28",
        Yes(&[
            "every_pair_of_actions_each_twice_goes_as_the_state_machine_says",
            "a_queued_order_cannot_be_cancelled_or_paid_yet",
            "a_paid_order_has_its_code_and_is_seen_paid_on_every_tab",
            "a_refund_is_an_admins_alone_sends_the_money_back_once_and_voids_code_and_credits",
        ]),
    ),
    ("S29", Partly(&["a_forged_request_is_refused_whatever_header_it_carries"])),
    ("S30", Yes(&["a_bearer_call_needs_no_page_and_no_foreign_page_may_read_an_answer"])),
    (
        "S31",
        Yes(&[
            "a_title_shows_as_text_on_every_page",
            "a_name_with_markup_shows_as_text",
            "what_others_typed_shows_as_text_everywhere",
            "no_template_switches_escaping_off",
        ]),
    ),
    ("S32", Yes(&["every_answer_carries_its_guards_and_a_shop_behind_tls_more_of_them"])),
    ("S33", Yes(&["no_page_makes_the_console_speak_and_none_is_wider_than_a_phone"])),
    ("S34", Yes(&["every_answer_carries_its_guards_and_a_shop_behind_tls_more_of_them"])),
    ("S35", Yes(&["no_page_holds_the_session_that_asked_for_it"])),
    ("S36", Yes(&["a_socket_asks_where_its_page_comes_from_and_who_it_is"])),
    ("S37", Yes(&["a_token_in_the_address_of_a_socket_opens_nothing"])),
    (
        "S38",
        Yes(&[
            "a_session_that_ends_in_whatever_way_closes_its_sockets_within_two_seconds",
            "who_is_no_admin_any_more_is_refused_with_his_next_request_and_his_control_room_falls_silent",
        ]),
    ),
    (
        "S39",
        Yes(&[
            "a_socket_that_floods_or_breaks_the_rules_is_closed_with_its_reason",
            "frames_that_break_the_protocol_end_the_socket",
        ]),
    ),
    (
        "S40",
        Yes(&[
            "the_eleventh_socket_of_a_user_closes_his_oldest_with_4409",
            "a_socket_that_floods_or_breaks_the_rules_is_closed_with_its_reason",
        ]),
    ),
    ("S41", Yes(&["nobody_hears_of_the_orders_of_another_whatever_he_asks_for"])),
    (
        "S42",
        Yes(&[
            "every_kind_of_notice_gets_its_status_and_only_the_right_one_pays",
            "a_weak_secret_and_a_sandbox_for_everybody_are_refused_in_one_sentence",
        ]),
    ),
    ("S43", Yes(&["five_minutes_either_way_are_the_limit", "every_kind_of_notice_gets_its_status_and_only_the_right_one_pays"])),
    ("S44", Yes(&["every_kind_of_notice_gets_its_status_and_only_the_right_one_pays"])),
    (
        "S45",
        Yes(&[
            "every_kind_of_notice_gets_its_status_and_only_the_right_one_pays",
            "a_notice_that_does_not_fit_changes_nothing_and_leaves_one_line_without_secrets",
        ]),
    ),
    (
        "S46",
        Yes(&[
            "during_a_rotation_both_secrets_are_believed",
            "during_a_rotation_both_secrets_count_and_after_it_the_old_one_does_not",
        ]),
    ),
    (
        "S47",
        Yes(&[
            "the_callback_takes_posts_alone_and_sets_nothing",
            "bodies_have_a_size_a_kind_and_methods_a_list",
            "who_cannot_sign_is_told_to_wait_and_who_can_is_heard_all_the_same",
        ]),
    ),
    ("S48", Yes(&["no_address_that_goes_out_comes_from_a_request"])),
    (
        "S49",
        Yes(&[
            "an_invented_forwarded_address_changes_nothing_without_a_trusted_proxy",
            "a_forwarded_address_is_believed_only_from_a_trusted_proxy",
        ]),
    ),
    (
        "S50",
        Yes(&[
            "a_purchase_limit_counts_users_and_stands_in_nobody_elses_way",
            "only_buying_and_logging_in_are_limited_by_address_and_the_refusal_is_polite",
        ]),
    ),
    ("S51", Yes(&["a_purchase_limit_counts_users_and_stands_in_nobody_elses_way"])),
    ("S52", Yes(&["bodies_have_a_size_a_kind_and_methods_a_list", "what_is_not_read_of_a_body_never_becomes_a_request"])),
    ("S53", Yes(&["silent_slow_and_trickling_clients_are_dropped_and_others_are_served_meanwhile"])),
    (
        "S54",
        Partly(&[
            "a_head_without_a_host_or_with_two_or_too_large_is_refused",
            "broken_heads_get_a_status_or_a_closed_connection",
            "what_is_not_read_of_a_body_never_becomes_a_request",
        ]),
    ),
    ("S55", Yes(&["a_line_end_in_a_parameter_never_becomes_a_header"])),
    ("S56", Yes(&["a_head_without_a_host_or_with_two_or_too_large_is_refused"])),
    (
        "S57",
        Yes(&[
            "signs_of_sql_in_a_parameter_make_no_difference",
            "thousands_of_bad_requests_are_refused_in_our_words_and_change_nothing",
        ]),
    ),
    ("S58", Yes(&["bad_ids_in_a_path_are_refused_before_anything_is_asked", "no_text_of_a_user_is_part_of_a_key"])),
    (
        "S59",
        Yes(&[
            "only_whole_numbers_in_their_range_become_a_stock_or_a_price",
            "thousands_of_bad_requests_are_refused_in_our_words_and_change_nothing",
        ]),
    ),
    (
        "S60",
        Yes(&[
            "each_route_is_listed_and_open_to_exactly_those_whom_its_role_names",
            "bodies_have_a_size_a_kind_and_methods_a_list",
        ]),
    ),
    ("S61", Yes(&["while_redis_or_the_database_is_away_an_answer_says_nothing_of_the_inside"])),
    ("S62", Yes(&["a_log_of_a_whole_walk_knows_no_password_token_cookie_body_or_phone"])),
    ("S63", Yes(&["the_figures_are_for_this_machine_unless_they_have_a_listener_of_their_own"])),
    ("S64", Yes(&["dependencies_are_locked_and_looked_through_by_make_check"])),
    ("S65", Partly(&["a_redis_user_without_the_dangerous_commands_and_a_role_that_is_no_superuser_are_enough"])),
    (
        "S66",
        Yes(&[
            "what_does_not_fit_is_refused_in_one_sentence",
            "a_weak_secret_and_a_sandbox_for_everybody_are_refused_in_one_sentence",
        ]),
    ),
    (
        "S67",
        Yes(&[
            "a_wrong_foreign_used_or_late_answer_never_reaches_the_script",
            "nothing_solved_before_the_begin_is_good_after_it",
        ]),
    ),
    ("S68", No),
    ("S69", Yes(&["no_path_leads_to_a_file_that_is_not_ours_to_show"])),
    ("S70", Yes(&["a_cell_is_never_a_formula_and_never_two_cells"])),
];

/// Every Rust file under the folder, as one text.
fn sources(folder: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.push_str(&sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            all.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
    all
}

#[test]
fn every_row_is_held_by_a_test_that_exists_or_by_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = sources(&root.join("tests/it")) + sources(&root.join("src")).as_str();
    let reasons = fs::read_to_string(root.join("docs/SECURITY.md")).unwrap();
    let reasons = reasons.split("## What does not apply").nth(1).unwrap();
    let reason =
        |row: &str| reasons.lines().any(|line| line.starts_with(&format!("| {row} |")) || line.starts_with(&format!("| {row},")));
    let named: BTreeSet<&str> = ROWS.iter().map(|(row, _)| *row).collect();
    let expected: BTreeSet<String> = (1..=70).map(|n| format!("S{n}")).collect();
    assert_eq!(named.iter().map(|r| (*r).to_owned()).collect::<BTreeSet<_>>(), expected);
    assert_eq!(ROWS.len(), 70, "a row stands twice");
    for (row, held) in ROWS {
        let tests = match held {
            Yes(tests) | Partly(tests) => *tests,
            No => &[],
        };
        assert_eq!(
            reason(row),
            !matches!(held, Yes(_)),
            "{row}: the table here and docs/SECURITY.md differ on whether there is an exception"
        );
        assert!(matches!(held, No) || !tests.is_empty(), "{row}");
        for test in tests {
            let there = text.contains(&format!("fn {test}("));
            assert!(there, "{row}: no test is called {test}");
        }
    }
}
