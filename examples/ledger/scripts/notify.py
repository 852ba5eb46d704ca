"""Refuses: a business decision, which no retry changes."""

from viat import ViatError


def main(reservation: str) -> dict:
    raise ViatError(status=422, code="recipient_missing", message=f"nobody is to be told of {reservation}")
