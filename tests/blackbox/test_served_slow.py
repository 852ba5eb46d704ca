"""What has to wait for a grace, a sweep or a long wait: all at once, each in a home of its own."""
from conftest import for_each, kill
from test_served_cancel import a_deaf_script_goes_with_its_daemons, the_server_is_told_to_end_while_it_cancels
from test_served_runs import an_event_without_a_server_starts_no_attempt, versions_and_budgets
from test_served_server import a_run_of_a_foreground_command_is_not_the_servers, the_server_takes_over_what_a_killed_command_left
from test_served_storm import a_disk_that_is_full_for_long_loses_no_run
from test_served_waits import (parked_waits_fire_events_reach_them_cancels_end_them, the_default_deadline_counts_no_waiting,
                               the_default_deadline_counts_retries_and_work, three_hundred_sleepers_and_a_restart)

SLOW = [parked_waits_fire_events_reach_them_cancels_end_them, a_deaf_script_goes_with_its_daemons, the_server_is_told_to_end_while_it_cancels,
        the_server_takes_over_what_a_killed_command_left, the_default_deadline_counts_no_waiting, the_default_deadline_counts_retries_and_work,
        versions_and_budgets, an_event_without_a_server_starts_no_attempt, a_run_of_a_foreground_command_is_not_the_servers,
        three_hundred_sleepers_and_a_restart, a_disk_that_is_full_for_long_loses_no_run]


def in_its_home(home, check):
    try:
        check(home)
    finally:
        for process in home.started:
            if process.poll() is None:
                kill(process)
            process.stderr.close()


def test_the_slow_ones(tmp_path):
    for_each(tmp_path, SLOW, in_its_home)
