"""What has to wait for a grace, a sweep or a long wait: all at once, each in a home of its own."""
from conftest import for_each
from test_served_cancel import a_deaf_script_goes_with_its_daemons, the_server_is_told_to_end_while_it_cancels
from test_served_server import the_server_takes_over_what_a_killed_command_left
from test_served_waits import parked_waits_fire_events_reach_them_cancels_end_them

SLOW = [a_deaf_script_goes_with_its_daemons, the_server_is_told_to_end_while_it_cancels, the_server_takes_over_what_a_killed_command_left,
        parked_waits_fire_events_reach_them_cancels_end_them]


def test_the_slow_ones(tmp_path):
    for_each(tmp_path, SLOW, lambda home, check: check(home))
