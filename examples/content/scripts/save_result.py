"""Saves a draft once: the task's id names the file, and a file that is there already is not written again."""

import json
import os

from viat import ViatError


def main(task_id: str, outbox: str, draft: dict) -> dict:
    os.makedirs(outbox, exist_ok=True)
    file = os.path.join(outbox, f"{task_id}.json")
    text = json.dumps({"task_id": task_id, **draft}, ensure_ascii=False, indent=2) + "\n"
    try:
        with open(file, "x", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
    except FileExistsError:
        with open(file, encoding="utf-8") as saved:
            if saved.read() != text:
                raise ViatError(status=409, code="result_conflict", message=f"{file} holds another draft of task {task_id}") from None
        print(f"{file} is saved already")
    return {"file": file}
