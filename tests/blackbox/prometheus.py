"""A strict reader of the Prometheus text format 0.0.4: what a scraper may choke on is an error here."""
import math
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)")
ENDINGS = {"counter": [""], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}


def parse(text):
    """Samples by name and sorted labels, after checking the syntax, families, histograms and that nothing comes twice."""
    assert text.endswith("\n")
    samples, kinds, helps, family = {}, {}, set(), None
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            family = line.split(" ", 3)[2]
            assert family not in helps and re.fullmatch(NAME, family), line
            helps.add(family)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == family and kind in ENDINGS and name not in kinds, line
            kinds[name] = kind
        else:
            found = SAMPLE.fullmatch(line)
            assert found, f"no sample: {line!r}"
            name, labels = found[1], re.findall(LABEL, found[2] or "")
            assert name in [family + ending for ending in ENDINGS[kinds[family]]], f"{line!r} is not of {family}"
            assert len({label for label, _ in labels}) == len(labels), line
            unescaped = {label: re.sub(r"\\(.)", lambda each: {"n": "\n"}.get(each[1], each[1]), value) for label, value in labels}
            key = (name, tuple(sorted(unescaped.items())))
            assert key not in samples, f"twice: {line}"
            value = float(found[found.lastindex])
            assert kinds[family] == "gauge" or value >= 0, line
            samples[key] = value
    for name, kind in kinds.items():
        assert kind != "counter" or name.endswith("_total"), name
        if kind == "histogram":
            check_histogram(name, samples)
    return samples


def check_histogram(family, samples):
    series = {}
    for (name, labels), value in samples.items():
        if name == family + "_bucket":
            others = tuple(pair for pair in labels if pair[0] != "le")
            series.setdefault(others, []).append((float(dict(labels)["le"]), value))
    for labels, buckets in series.items():
        bounds, counts = zip(*buckets)
        assert list(bounds) == sorted(bounds) and bounds[-1] == math.inf, f"{family} {labels}: {bounds}"
        assert list(counts) == sorted(counts), f"{family} {labels}: {counts}"
        assert samples[(family + "_count", labels)] == counts[-1] and (family + "_sum", labels) in samples, family


class Metrics:
    def __init__(self, text):
        self.samples = parse(text)

    def get(self, name, **labels):
        """The sample's value; 0 where there is none."""
        return self.samples.get((name, tuple(sorted(labels.items()))), 0)

    def series(self, name):
        return {labels: value for (each, labels), value in self.samples.items() if each == name}


def scrape(server):
    answer = server.ask("GET", "/metrics")
    assert answer.status == 200 and answer.kind == "text/plain; version=0.0.4; charset=utf-8", answer
    return Metrics(answer.body.decode())
