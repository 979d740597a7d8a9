"""Runs exported models with ONNX Runtime, and compares what they say with what headwise and transformers say.

    PYTHON tests/parity/onnx.py PROGRAM [MODEL...]

PROGRAM is headwise; PYTHON has numpy, onnxruntime and safetensors. Models are folders, or names of tests/golden/models, by
default all of these. Texts of different lengths are one batch, padded behind or before them with tokens that the mask hides.
Golden models are compared with what transformers gave (expected.safetensors) as well, with their weights in a file apart; one of
each architecture, and every folder, is also pruned, in every form that it can have.
"""

from __future__ import annotations

import json
import pathlib
import random
import sys
import tempfile

import numpy
import onnxruntime
from forms import all_forms, headwise
from safetensors.numpy import load_file

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "models"
PRUNED = ["bert", "bert_sequence", "bert_fixed", "roberta", "xlm_roberta", "electra", "distilbert", "mpnet", "sentence_dense",
          "gpt2", "gpt_neox", "llama", "llama_routed", "mistral", "qwen2", "qwen3", "smollm3", "marian", "t5"]
SENTENCES = ["The trophy does not fit into the suitcase because it is too big.", "Why?", "Rivers carry sand to the sea."]
TOLERANCE = 2e-5  # of the largest number; two libraries that add float32 numbers in different orders

Texts = list[list[int]]


class Exported:
    """The graphs of a folder."""

    def __init__(self, program: str, folder: pathlib.Path, file: pathlib.Path, *how: str) -> None:
        document = headwise(program, "export", str(folder), "--onnx", str(file), *how)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.sessions = [
            onnxruntime.InferenceSession(graph["file"], options, providers=["CPUExecutionProvider"])
            for graph in document["graphs"]
        ]

    def run(self, texts: Texts, types: Texts, targets: Texts, vocabulary: int, left: bool) -> dict[str, list[numpy.ndarray]]:
        """Outputs by name, one array per text and without padding."""
        ids, mask = padded(texts, vocabulary, left)
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": padded(types, 1, left)[0]}
        outputs = self.ask(0, feed)
        if len(self.sessions) == 1:
            return self.unpadded(0, outputs, texts, left)
        decoder_ids, _ = padded(targets, vocabulary, False)
        rows = outputs["last_hidden_state"]
        feed = {"decoder_input_ids": decoder_ids, "encoder_hidden_states": rows, "encoder_attention_mask": mask}
        encoded = self.unpadded(0, outputs, texts, left)
        decoded = self.unpadded(1, self.ask(1, feed), targets, False)
        return decoded | {"encoder_last_hidden_state": encoded["last_hidden_state"]}

    def ask(self, graph: int, feed: dict[str, numpy.ndarray]) -> dict[str, numpy.ndarray]:
        session = self.sessions[graph]
        wanted = {each.name: feed[each.name] for each in session.get_inputs()}
        return dict(zip([each.name for each in session.get_outputs()], session.run(None, wanted), strict=True))

    def unpadded(self, graph: int, outputs: dict, texts: Texts, left: bool) -> dict[str, list[numpy.ndarray]]:
        def cut(row: numpy.ndarray, tokens: int) -> numpy.ndarray:
            return row[-tokens:] if left else row[:tokens]

        by_token = {each.name for each in self.sessions[graph].get_outputs() if isinstance(each.shape[1], str)}
        lengths = {name: map(len, texts) for name in by_token}
        return {name: [cut(row, next(lengths[name])) if name in by_token else row for row in rows] for name, rows in outputs.items()}


def padded(texts: Texts, vocabulary: int, left: bool) -> tuple[numpy.ndarray, numpy.ndarray]:
    draw, longest = random.Random(7), max(map(len, texts))
    ids = [[draw.randrange(vocabulary) for _ in range(longest - len(text))] for text in texts]
    ids = [hidden + text if left else text + hidden for hidden, text in zip(ids, texts, strict=True)]
    mask = [[0] * (longest - len(text)) for text in texts]
    mask = [hidden + [1] * len(text) if left else [1] * len(text) + hidden for hidden, text in zip(mask, texts, strict=True)]
    return numpy.array(ids, dtype=numpy.int64), numpy.array(mask, dtype=numpy.int64)


def cut(values: numpy.ndarray, lengths: list[int]) -> list[numpy.ndarray]:
    return numpy.split(values, numpy.cumsum(lengths)[:-1])


def run_program(program: str, folder: pathlib.Path, task: str, texts: Texts, targets: Texts) -> list[numpy.ndarray]:
    arguments = [part for text in texts for part in ("--ids", " ".join(map(str, text)))]
    arguments += [part for text in targets for part in ("--decoder-ids", " ".join(map(str, text)))]
    key = {"embed": "embedding"}.get(task, task)
    results = headwise(program, "run", str(folder), "--task", task, *arguments)["results"]
    return [numpy.array(result[key], dtype=numpy.float32) for result in results]


def said_by_program(program: str, folder: pathlib.Path, outputs: list[str], texts: Texts, targets: Texts) -> dict:
    """The same outputs, by headwise run; token types are all 0."""
    said = {}
    for name in outputs:
        if name == "encoder_last_hidden_state":
            said[name] = run_program(program, folder, "hidden", texts, [])
        elif name == "last_hidden_state":
            said[name] = run_program(program, folder, "hidden", texts, targets)
        elif name == "sentence_embedding":
            said[name] = run_program(program, folder, "embed", texts, [])
        else:
            logits = run_program(program, folder, "logits", texts, targets)
            column = {"start_logits": 0, "end_logits": 1}.get(name)
            said[name] = logits if column is None else [rows[:, column] for rows in logits]
    return said


def expected_of(golden: dict[str, numpy.ndarray], outputs: list[str], lengths: list[int], target_lengths: list[int]) -> dict:
    """The same outputs, by transformers."""
    names = {"last_hidden_state": "dec.final" if target_lengths else "final", "encoder_last_hidden_state": "enc.final",
             "sentence_embedding": "embedding"}
    said = {}
    for name in outputs:
        values = golden.get(names.get(name, name))
        if values is None:
            continue
        rows = target_lengths if target_lengths and name != "encoder_last_hidden_state" else lengths
        said[name] = list(values) if len(values) == len(lengths) != sum(rows) else cut(values, rows)
    return said


def difference(ours: dict[str, list[numpy.ndarray]], theirs: dict[str, list[numpy.ndarray]]) -> float:
    worst = 0.0
    for name, expected in theirs.items():
        largest = max(float(numpy.abs(values).max()) for values in expected)
        for a, b in zip(ours[name], expected, strict=True):
            assert a.size == b.size, (name, a.shape, b.shape)
            worst = max(worst, float(numpy.abs(a.reshape(b.shape) - b).max()) / largest)
    return worst


def random_texts(vocabulary: int, lengths: list[int], avoid: set[int]) -> Texts:
    draw, known = random.Random(1), [token for token in range(vocabulary) if token not in avoid]
    return [[draw.choice(known) for _ in range(length)] for length in lengths]


def compare(program: str, folder: pathlib.Path, room: pathlib.Path) -> dict[str, float]:
    config = json.loads((folder / "config.json").read_text())
    two = config.get("is_encoder_decoder", False) and config.get("architectures") != ["T5EncoderModel"]
    golden = load_file(folder / "expected.safetensors") if (folder / "expected.safetensors").exists() else {}
    vocabulary = min(config["vocab_size"], config.get("decoder_vocab_size") or config["vocab_size"])
    avoid = {config.get("pad_token_id"), 1 if config["model_type"] == "mpnet" else None}
    longest = min(11, config.get("max_position_embeddings") or 11)
    texts = random_texts(vocabulary, [5, longest, 1, 8], avoid)
    targets = random_texts(vocabulary, [3, 1, 9, 6], avoid) if two else []
    if (folder / "tokenizer.json").exists():
        arguments = [part for sentence in SENTENCES for part in ("--text", sentence)]
        texts = [result["ids"] for result in headwise(program, "run", str(folder), "--task", "hidden", *arguments)["results"]]
    exported = Exported(program, folder, room / "model.onnx")
    said, differences = None, {}
    for side in ("right", "left"):
        zeros = [[0] * len(text) for text in texts]
        outputs = exported.run(texts, zeros, targets, vocabulary, side == "left")
        said = said or said_by_program(program, folder, list(outputs), texts, targets)
        differences[f"headwise, padded {side}"] = difference(outputs, said)
    if golden:
        lengths, target_lengths = golden["lengths"].tolist(), golden.get("decoder_lengths", numpy.array([])).tolist()
        texts = [text.tolist() for text in cut(golden["ids"], lengths)]
        types = [text.tolist() for text in cut(golden.get("type_ids", numpy.zeros_like(golden["ids"])), lengths)]
        targets = [text.tolist() for text in cut(golden["decoder_ids"], target_lengths)] if target_lengths else []
        exported = Exported(program, folder, room / "apart.onnx", "--external-data")
        outputs = exported.run(texts, types, targets, vocabulary, False)
        theirs = expected_of(golden, list(outputs), lengths, target_lengths)
        assert set(theirs) >= set(outputs) - {"last_hidden_state", "encoder_last_hidden_state"}, (set(outputs), set(theirs))
        differences["transformers"] = difference(outputs, theirs)
    return differences


def folders(program: str, name: str, room: pathlib.Path) -> dict[str, pathlib.Path]:
    source = GOLDEN / name if (GOLDEN / name).exists() else pathlib.Path(name)
    found = {"as it is": source}
    if name in PRUNED or source.parent != GOLDEN:
        found |= all_forms(program, source, room)
    return found


def main() -> int:
    program, names = sys.argv[1], sys.argv[2:] or sorted(config.parent.name for config in GOLDEN.glob("*/config.json"))
    print(f"onnxruntime {onnxruntime.__version__}")
    wrong = compared = 0
    for name in names:
        with tempfile.TemporaryDirectory() as temporary:
            room = pathlib.Path(temporary)
            for form, folder in folders(program, name, room).items():
                try:
                    (room / f"{form}.onnx").mkdir()
                    found = compare(program, folder, room / f"{form}.onnx")
                except RuntimeError as error:
                    found = {str(error).strip().splitlines()[0]: float("inf")}
                bad = any(not value <= TOLERANCE for value in found.values())
                wrong, compared = wrong + bad, compared + 1
                text = ", ".join(f"{what} {value:.1e}" for what, value in found.items())
                print(f"{pathlib.Path(name).name:28} {form:31} {text}{' DIFFERS' if bad else ''}", flush=True)
    print(f"{compared} compared, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
