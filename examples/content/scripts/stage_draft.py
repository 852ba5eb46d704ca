"""Puts a draft where a reviewer can see it: a temporary object, which `discard_draft` takes away again."""

import json
import os


def main(task_id: str, outbox: str, draft: dict) -> dict:
    folder = os.path.join(outbox, "staged")
    os.makedirs(folder, exist_ok=True)
    file = os.path.join(folder, f"{task_id}.json")
    with open(file, "w", encoding="utf-8") as out:
        json.dump(draft, out, ensure_ascii=False, indent=2)
    return {"file": file}
