"""Checks that text is cut here as golden.jsonl says; a test of crates/pml-search checks the same of the Rust code.

Needs no packages: the entries are read from the table. `check.py --write` writes the file anew, after a change of the
tokenizer or of the vocabulary; then look at the difference.
"""

import argparse
import json
import struct
import sys
from pathlib import Path

from text import singular, words
from vocabulary import Cutter

HERE = Path(__file__).parent
TABLE = HERE / "../../crates/pml-search/model/table.bin"
GOLDEN = HERE / "golden.jsonl"

TEXTS = [
    "",
    " \t\n.,;:!?()[]{}\"'`~@#$%^&*-+=|\\/<>",
    "list all files",
    "getUserID",
    "get_user_id",
    "get-user-id",
    "GET USER ID",
    "HTTPServer_v2",
    "parseJSONResponse2XML",
    "GitHub issue #42, please!",
    "iPhone15ProMax",
    "S3 buckets in us-east-1",
    "ipv4 x86_64 sha256 utf8 base64",
    "2024-06-15T10:30:00Z",
    "1234567890",
    "3.14159 1½ x² Ⅷ ٣٤",
    "queries searches boxes classes statuses analyses bus access dns news",
    "don't o'clock user's",
    "anna@example.com https://example.com/a?b=c",
    "/home/anna/Report_final.PDF C:\\Users",
    "Größe GRÖSSE naïve café cafe\u0301 ﬁle",
    "ΣΊΣΥΦΟΣ Москва İstanbul ıI ǅ",
    "搜索网页 bing搜索 カタカナひらがな 検索API",
    "한국어 ภาษาไทย",
    "🦓🎉 a🎉b ☃",
    "\u200b\ufeff\u00a0\u202e",
    "xqzzk kubectl terraforming invioce playlsit",
    "a" * 40,
    "a" * 32,
    "antidisestablishmentarianismandsomemoreletters",
    "camelCASEMixedUP ABc aBC AbC ABC aB1c2D",
    "_private __init__ $var @types/node",
    "wordless123words 12ab34 4k 5G mp3s",
]


def vocabulary():
    data = TABLE.read_bytes()
    assert data[:8] == b"PMLTABLE"
    size = struct.unpack("<I", data[16:20])[0]
    return data[24 : 24 + size].decode().split("\n")


def cut(text, entries, cutter):
    runs = [list(run) for run in words(text)]
    plurals = {part: singular(part) for _, parts in runs for part in parts if singular(part) != part}
    return dict(text=text, runs=runs, entries=[entries[i] for i in cutter.text(text)], singular=plurals)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    entries = vocabulary()
    cutter = Cutter(entries)
    if parser.parse_args().write:
        lines = (json.dumps(cut(text, entries, cutter), ensure_ascii=False) for text in TEXTS)
        GOLDEN.write_text("".join(line + "\n" for line in lines))
        return
    wrong = 0
    for line in GOLDEN.read_text().split("\n"):
        if line and (expected := json.loads(line)) != (actual := cut(expected["text"], entries, cutter)):
            print(f"expected {expected}\nis       {actual}", file=sys.stderr)
            wrong += 1
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
