"""Chooses the entries of the table and cuts text into them."""

import json
import re
from collections import Counter

from text import words

# Pieces of the teacher's vocabulary are kept if they are Latin letters or digits: other scripts are noise to it.
PIECE = re.compile(r"(##)?([a-z]+|[0-9]{1,4})$")


def operation_text(record):
    if record["source"] == "wordnet":
        return " ".join(record["words"] + [record["gloss"]] + record["examples"])
    parameters = " ".join(f"{name} {description}" for name, description in record["parameters"])
    return f"{record['server']} {record['name']} {record['summary']} {record['description']} {parameters}"


def count(corpus):
    counts = {"wordnet": Counter(), "operations": Counter()}
    for line in open(corpus):
        record = json.loads(line)
        kind = "wordnet" if record["source"] == "wordnet" else "operations"
        # Once per text: what a word is worth depends on how many texts have it.
        seen = set()
        for joined, parts in words(operation_text(record)):
            seen.update(parts)
            if len(parts) == 2:
                seen.add(joined)
        counts[kind].update(seen)
    return counts


def choose(counts, teacher_vocabulary, size):
    """Continuation pieces, then whole words by how often they occur in tool text and in WordNet."""
    whole, inner = [], []
    for piece in teacher_vocabulary:
        if PIECE.match(piece):
            (inner if piece.startswith("##") else whole).append(piece)
    frequency = Counter({word: 3 * n for word, n in counts["operations"].items()})
    frequency.update(counts["wordnet"])
    for word in whole:
        frequency[word] += 4  # the teacher's makers found them frequent in general text
    letters = set("abcdefghijklmnopqrstuvwxyz0123456789")
    candidates = [w for w in frequency if re.match(r"[a-z]{2,24}$|[0-9]{1,3}$", w) and w not in letters]
    candidates.sort(key=lambda word: (-frequency[word], word))
    inner = [p for p in inner if len(p) > 3]  # single characters are there already
    entries = sorted(letters) + ["##" + c for c in sorted(letters)] + inner
    entries += candidates[: size - len(entries)]
    return entries


class Cutter:
    """Greedy longest match, as in crates/pml-search/src/tokenize.rs."""

    def __init__(self, entries):
        self.index = {entry: i for i, entry in enumerate(entries)}
        self.cache = {}

    def word(self, word):
        if word not in self.cache:
            self.cache[word] = self._word(word)
        return self.cache[word]

    def _word(self, word):
        if word in self.index:
            return [self.index[word]]
        if len(word) > 32:
            return []
        ids, start = [], 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = ("##" if start else "") + word[start:end]
                if piece in self.index:
                    ids.append(self.index[piece])
                    start = end
                    break
            else:
                return []
        return ids

    def text(self, text):
        ids = []
        for joined, parts in words(text):
            # `GitHub` is one word if the table knows it as one.
            if len(parts) > 1 and joined in self.index:
                ids.append(self.index[joined])
            else:
                for part in parts:
                    ids += self.word(part)
        return ids
