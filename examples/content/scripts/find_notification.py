"""Finds out whether a notification went out, for an attempt of which nobody knows: it is not sent a second time on a guess."""

import os


def main(outbox: str, key: str) -> dict:
    try:
        with open(os.path.join(outbox, "notifications.log"), encoding="utf-8") as log:
            for line in log:
                sent, _, text = line.rstrip("\n").partition(" ")
                if sent == key:
                    return {"completed": True, "output": {"told": text}}
    except FileNotFoundError:
        pass
    return {"completed": False}
