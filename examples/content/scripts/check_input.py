"""Refuses a request that no retry could make right."""

from viat import ViatError


def main(topic: str) -> dict:
    topic = topic.strip()
    if not topic:
        raise ViatError(status=422, code="topic_missing", message="a draft needs a topic")
    return {"topic": topic}
