"""A small BERT with random weights in a folder, and texts that it reads. NumPy is all it takes."""

import json
import re
import struct
from pathlib import Path

import numpy as np

WIDTH, HEADS, LAYERS, INNER, POSITIONS = 16, 4, 2, 32, 64
TEXTS = [
    "the cat that chased the mice was tired",
    "he lost his keys and went home",
    "nobody had expected the results of the vote on sunday",
    "the old man gave the dog a bone",
    "she reads a book in the garden every morning",
    "the results of the game were lost",
    "a dog and a cat went home with the man",
    "every vote was expected on sunday morning",
] * 4


def make(folder: Path, labels: int = 0) -> Path:
    """A BERT for masked tokens, or with `labels` for classes of texts."""
    words = sorted({word for text in TEXTS for word in re.findall("[a-z]+", text)})
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    rng = np.random.default_rng(1)
    tensors = {}

    def weight(name, *shape):
        tensors[f"{name}.weight"] = (rng.standard_normal(shape) * 0.3).astype(np.float32)
        if "embeddings." not in name or name.endswith("LayerNorm"):
            tensors[f"{name}.bias"] = (rng.standard_normal(shape[0]) * 0.1).astype(np.float32)

    def norm(name):
        tensors[f"{name}.weight"] = np.ones(WIDTH, np.float32)
        tensors[f"{name}.bias"] = np.zeros(WIDTH, np.float32)

    weight("bert.embeddings.word_embeddings", len(vocabulary), WIDTH)
    weight("bert.embeddings.position_embeddings", POSITIONS, WIDTH)
    weight("bert.embeddings.token_type_embeddings", 2, WIDTH)
    norm("bert.embeddings.LayerNorm")
    for layer in range(LAYERS):
        at = f"bert.encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            weight(f"{at}.attention.self.{part}", WIDTH, WIDTH)
        weight(f"{at}.attention.output.dense", WIDTH, WIDTH)
        norm(f"{at}.attention.output.LayerNorm")
        weight(f"{at}.intermediate.dense", INNER, WIDTH)
        weight(f"{at}.output.dense", WIDTH, INNER)
        norm(f"{at}.output.LayerNorm")
    if labels:
        weight("bert.pooler.dense", WIDTH, WIDTH)
        weight("classifier", labels, WIDTH)
    else:
        weight("cls.predictions.transform.dense", WIDTH, WIDTH)
        norm("cls.predictions.transform.LayerNorm")
        tensors["cls.predictions.bias"] = np.zeros(len(vocabulary), np.float32)

    folder.mkdir(parents=True)
    config = {
        "model_type": "bert", "architectures": ["BertForSequenceClassification" if labels else "BertForMaskedLM"], "hidden_size": WIDTH, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "intermediate_size": INNER, "max_position_embeddings": POSITIONS,
        "vocab_size": len(vocabulary),
    }
    if labels:
        config["id2label"] = {str(label): f"class{label}" for label in range(labels)}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True}))
    write_safetensors(folder / "model.safetensors", tensors)
    return folder


TREES = """\
# text = the dog gave the cat a bone
1	the	the	DET	_	_	2	det	_	_
2	dog	dog	NOUN	_	_	3	nsubj	_	_
3	gave	give	VERB	_	_	0	root	_	_
4	the	the	DET	_	_	5	det	_	_
5	cat	cat	NOUN	_	_	3	iobj	_	_
6	a	a	DET	_	_	7	det	_	_
7	bone	bone	NOUN	_	_	3	obj	_	_

# text = she reads every book
1	she	she	PRON	_	_	2	nsubj	_	_
2	reads	read	VERB	_	_	0	root	_	_
3	every	every	DET	_	_	4	det	_	_
4	book	book	NOUN	_	_	2	obj	_	_

"""


def write_labels(file: Path, labels: int = 2) -> Path:
    """The texts, each with one of the classes."""
    file.write_text("".join(f"{text}\tclass{i % labels}\n" for i, text in enumerate(TEXTS)))
    return file


def write_safetensors(file: Path, tensors: dict[str, np.ndarray]) -> None:
    header, data = {}, b""
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + tensor.nbytes]}
        data += tensor.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)
