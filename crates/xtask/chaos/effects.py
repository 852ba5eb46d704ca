"""Stands in front of every script of a chaos run: what a script does is written down, line by line, outside of the engine.

A line is JSON: run, path, key (the idempotency key), attempt, word, and when. The words:
`begin`: main was entered; `effect`: the one thing that the script is for has happened; `end`: main is about to return.
"""
import functools
import json
import os
import time

import viat

EFFECTS = os.environ["CHAOS_EFFECTS"]


def note(word):
    context = viat.context
    line = {"run": context.run_id, "path": context.path, "key": context.idempotency_key, "attempt": context.attempt, "word": word}
    file = os.open(EFFECTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        # One write: whoever is killed has written the whole line or nothing of it.
        os.write(file, (json.dumps(line) + "\n").encode())
        os.fsync(file)
    finally:
        os.close(file)


def nap(longest_ms):
    """Takes a while, so that a kill finds something under way; ends early when it is told to stop."""
    share = int.from_bytes(os.urandom(2), "big") / 65536
    end = time.monotonic() + share * longest_ms / 1000
    while time.monotonic() < end and not viat.cancelled():
        time.sleep(0.005)


def recorded(main):
    @functools.wraps(main)
    def around(**args):
        note("begin")
        value = main(**args)
        note("end")
        return value
    return around


