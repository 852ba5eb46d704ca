"""Decides about a draft by rule. A rejection is a value, not an error: the workflow says what follows from it."""


def main(draft: dict) -> dict:
    if draft["words"] < 5:
        return {"decision": "rejected", "comment": "too short to be useful"}
    return {"decision": "approved", "comment": f"{draft['words']} words"}
