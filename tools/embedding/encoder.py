"""Writes the small encoder of the search: paraphrase-MiniLM-L3-v2 in four bits, as `pml-search/src/encoder` reads it.

    encoder.py ARCHIVES OUT

The weights are those of the crate pocket-encoder, which has them in four bits with a half-precision scale for every 32. Here a
row has one scale, and every 32 numbers of it a whole multiple of that, so that a product of a row is one of whole numbers and
comes out the same everywhere. Pieces of words that no text of ours can have are left out, and so are places beyond the
longest text that is read.
"""

import hashlib
import json
import pathlib
import struct
import sys
import tarfile

import numpy as np

ARCHIVE = "pocket-encoder-0.1.2.crate"
FOLDER = "pocket-encoder-0.1.2/assets/"
MAGIC = b"PMLENC01"
LAYERS, WIDTH, INNER, HEADS, GROUP = 3, 384, 1536, 12, 32
PLACES = 64
MATRICES = [
    "attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
    "intermediate.dense", "output.dense",
]


class Weights:
    def __init__(self, data, shapes):
        size = struct.unpack("<Q", data[:8])[0]
        self.header, self.data, self.shapes = json.loads(data[8 : 8 + size]), data[8 + size :], shapes

    def raw(self, name, kind):
        begin, end = self.header[name]["data_offsets"]
        return np.frombuffer(self.data[begin:end], kind)

    def vector(self, name):
        return self.raw(name, "<f4")

    def matrix(self, name):
        """Whole numbers from -7 to 7, and a scale for each group of them."""
        rows, columns = self.shapes[name]
        packed = self.raw(name + ".q4", np.uint8)
        values = np.stack([packed & 15, packed >> 4], 1).reshape(-1)[: rows * columns].astype(np.int8) - 8
        scales = self.raw(name + ".scales", "<f2").astype(np.float32)
        return values.reshape(rows, columns), scales[: rows * columns // GROUP].reshape(rows, columns // GROUP)

    def floats(self, name):
        values, scales = self.matrix(name)
        return values * np.repeat(scales, GROUP, 1)


def pack(values, scales):
    """Scales of rows, multiples of groups, and two values a byte."""
    largest = scales.max(1)
    multiples = np.clip(np.round(scales / largest[:, None] * 255), 1, 255).astype(np.uint8)
    rows = (largest / 255).astype("<f4")
    nibbles = (values + 8).astype(np.uint8)
    return rows.tobytes() + multiples.tobytes() + (nibbles[:, 0::2] | nibbles[:, 1::2] << 4).tobytes()


def is_piece(text):
    """What the tokenizer of the search can look for: it knows small letters, digits and signs of ASCII."""
    return text in ("[CLS]", "[SEP]") or (text.isascii() and not text.startswith("[") or text == "[")


def main(archives, out):
    archive = pathlib.Path(archives) / ARCHIVE
    with tarfile.open(archive) as crate:
        read = lambda name: crate.extractfile(FOLDER + name).read()
        weights = Weights(read("model.safetensors"), json.loads(read("shapes.json")))
        vocabulary = json.loads(read("tokenizer.json"))["model"]["vocab"]
        source = json.loads(read("provenance.json"))
    notice = pathlib.Path(__file__).with_name("NOTICE.encoder.txt").read_text()
    notice += f"Revision {source['upstream_revision']}, SHA-256 {source['upstream_sha256']['model.safetensors']}.\n"
    notice += f"{hashlib.sha256(archive.read_bytes()).hexdigest()}  {ARCHIVE}\n"

    pieces = sorted((piece for piece in vocabulary if is_piece(piece)), key=vocabulary.get)
    values, scales = weights.matrix("embeddings.word_embeddings.weight")
    chosen = [vocabulary[piece] for piece in pieces]
    places = weights.floats("embeddings.position_embeddings.weight")[:PLACES]
    places = places + weights.floats("embeddings.token_type_embeddings.weight")[0]

    words, about = "\n".join(pieces).encode(), notice.encode()
    numbers = [len(pieces), PLACES, LAYERS, WIDTH, INNER, HEADS, len(words), len(about)]
    parts = [MAGIC, struct.pack("<8I", *numbers), words, about]
    parts += [pack(values[chosen], scales[chosen]), places.astype("<f4").tobytes()]
    norm = lambda name: [weights.vector(name + end).astype("<f4").tobytes() for end in (".weight", ".bias")]
    parts += norm("embeddings.LayerNorm")
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}."
        for name in MATRICES:
            parts += [pack(*weights.matrix(f"{prefix}{name}.weight")), weights.vector(f"{prefix}{name}.bias").tobytes()]
        parts += norm(prefix + "attention.output.LayerNorm") + norm(prefix + "output.LayerNorm")
    data = b"".join(parts)
    pathlib.Path(out).write_bytes(data)
    print(f"{len(pieces)} pieces, {len(data)} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:3])
