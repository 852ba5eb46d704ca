"""Saves a draft once: the idempotency key names the file, and a file that is there already is not written again."""

import json
import os

import viat
from viat import ViatError


def main(outbox: str, draft: dict, staged: str) -> dict:
    os.makedirs(outbox, exist_ok=True)
    key = viat.context.idempotency_key
    file = os.path.join(outbox, f"{key}.json")
    text = json.dumps({"key": key, **draft}, ensure_ascii=False, indent=2) + "\n"
    written = f"{file}.{os.getpid()}"
    with open(written, "w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    try:
        # A link is made whole or not at all, and never over another file.
        os.link(written, file)
    except FileExistsError:
        with open(file, encoding="utf-8") as saved:
            if saved.read() != text:
                raise ViatError(status=409, code="result_conflict", message=f"{file} holds another draft") from None
        print(f"{file} is saved already")
    finally:
        os.remove(written)
    if os.path.exists(staged):
        os.remove(staged)
    return {"file": file}
