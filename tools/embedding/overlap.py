"""Shows training text that is nearly a query, so that nobody trains on what the search is judged by.

For each query, the training text that has the largest share of its words (rare words count more). Give it the queries that
a table will be judged by, before a source is added: overlap.py work/corpus.jsonl queries.jsonl ... It only prints; nothing
of the queries gets into the table.
"""

import argparse
import json
import math
from collections import Counter, defaultdict
from pathlib import Path

from phrases import everyday
from text import singular, words


def terms(text):
    return {singular(part) for _, parts in words(text) for part in parts if len(part) > 1}


def training_texts(corpus):
    """Short texts: summaries, and the beginnings of descriptions. A query is no longer than they are."""
    for line in corpus.open():
        record = json.loads(line)
        if record["source"] == "wordnet":
            yield from record["examples"]
        else:
            yield record["summary"] or record["description"][:150]
    for _, description, requests in everyday():
        yield description
        yield from requests


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("queries", type=Path, nargs="+")
    parser.add_argument("--at-least", type=float, default=0.7, help="the share of words in common, in both directions")
    options = parser.parse_args()

    texts = sorted(set(training_texts(options.corpus)))
    bags = [terms(text) for text in texts]
    counts = Counter(term for bag in bags for term in bag)
    weight = lambda bag: sum(math.log(1 + len(texts) / (1 + counts[term])) for term in bag)
    holders = defaultdict(list)
    for i, bag in enumerate(bags):
        for term in bag:
            if counts[term] < 2000:
                holders[term].append(i)
    weights = [weight(bag) for bag in bags]
    for path in options.queries:
        near, total = 0, 0
        for line in path.open():
            query = json.loads(line)["query"]
            total += 1
            bag = terms(query)
            own = weight(bag)
            best = max(((2 * weight(bag & bags[i]) / (own + weights[i]), texts[i])
                        for i in {i for term in bag for i in holders.get(term, ())}), default=(0, ""))
            if best[0] >= options.at_least:
                near += 1
                print(f"{best[0]:.2f}  {query}  ~  {best[1]}")
        print(f"{path}: {near} of {total} queries have a training text with {options.at_least:.0%} of words in common")


if __name__ == "__main__":
    main()
