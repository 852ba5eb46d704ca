"""Finds out from the effects file whether an entry's effect has happened. Of every fourth key it says that it cannot know."""

import zlib

import viat


def main(nap_ms: int) -> dict:
    key = viat.context.idempotency_key
    nap(nap_ms)
    if zlib.crc32(key.encode()) % 4 == 0:
        return {"completed": "unknown"}
    with open(EFFECTS, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    entry = viat.context.path.partition(":")[0]
    done = any(line["word"] == "effect" and line["key"] == key and line["path"] == entry for line in lines)
    return {"completed": True, "output": {"key": key}} if done else {"completed": False}
