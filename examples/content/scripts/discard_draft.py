"""Takes a staged draft away. One that is gone already is no error: undoing may be asked for twice."""

import os


def main(file: str) -> dict:
    try:
        os.remove(file)
    except FileNotFoundError:
        return {"discarded": False}
    return {"discarded": True}
