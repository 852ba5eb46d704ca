"""Writes a draft. It stands for a call to a model: slow, billed, and sometimes cut off."""

import viat


def main(topic: str, rehearse_failure: bool = False) -> dict:
    print(f"asking for a draft about {topic!r}, attempt {viat.context.attempt}")
    if rehearse_failure and viat.context.attempt == 1:
        # The author's own word that trying again may help; any other exception would end the run at once.
        raise viat.TransportError("the model's connection was reset")
    title = f"What there is to know about {topic}"
    sentences = [f"{title}.", f"First, {topic} in one sentence.", "Then, what can go wrong, and what happens next."]
    return {"title": title, "text": " ".join(sentences), "words": sum(len(sentence.split()) for sentence in sentences)}
