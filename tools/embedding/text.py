"""The tokenizer, as in crates/pml-search/src/tokenize.rs. golden.jsonl, which check.py and a test there read, keeps the two
together. They differ in scripts that have vowel signs, of which the table knows nothing."""

import re

# A run of letters and digits; Chinese characters and Japanese syllables are runs of their own.
CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
RUN = re.compile(rf"[{CJK}]+|[^\W_{CJK}]+")


def camel(run):
    """Splits at aB, at ABc before Bc, and between letters and digits."""
    parts, start = [], 0
    for i in range(1, len(run)):
        before, here = run[i - 1], run[i]
        after = run[i + 1] if i + 1 < len(run) else ""
        split = (
            before.isnumeric() != here.isnumeric()
            or (before.islower() and here.isupper())
            or (before.isupper() and here.isupper() and after.islower())
        )
        if split:
            parts.append(run[start:i])
            start = i
    parts.append(run[start:])
    return parts


def lower(text):
    """Character by character: Python's own has a rule for the last one of Greek words."""
    return "".join(map(str.lower, text))


def words(text):
    """(joined, parts) of every run: `getUserID` is ("getuserid", ["get", "user", "id"])."""
    for run in RUN.findall(text):
        parts = [lower(part) for part in camel(run)]
        yield lower(run), parts


def singular(word):
    """Plural endings only; anything more costs precision."""
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "xes", "sses", "zes")):
        return word[:-2]
    return word[:-1]
