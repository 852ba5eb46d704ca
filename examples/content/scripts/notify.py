"""Tells the author what became of the draft. It stands for an e-mail: once sent, it cannot be taken back."""

import os

import viat


def main(outbox: str, text: str) -> dict:
    os.makedirs(outbox, exist_ok=True)
    with open(os.path.join(outbox, "notifications.log"), "a", encoding="utf-8") as log:
        log.write(f"{viat.context.idempotency_key} {text}\n")
        log.flush()
        os.fsync(log.fileno())
    return {"told": text}
