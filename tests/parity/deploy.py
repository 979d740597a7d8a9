"""Runs the code of docs/deploy.md and of model cards with the real packages, and compares with headwise.

    PYTHON tests/parity/deploy.py PROGRAM MODEL

PROGRAM is headwise, MODEL the folder of MiniLM (./dev model minilm). PYTHON has torch, transformers, sentence-transformers,
onnxruntime and tokenizers; a block that needs a package which is missing (optimum) is skipped, by name. The blocks of the page
run in their order in an empty folder. Model cards are those of small golden models, pruned in every form that their row names,
with an original card that tries to break the metadata.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import io
import os
import pathlib
import re
import shlex
import shutil
import sys
import tempfile
import warnings

import huggingface_hub
import numpy
import tokenizers
import torch
import transformers
from forms import even, headwise, layers_of, prune, uneven

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GOLDEN = ROOT / "tests" / "golden" / "models"
PACKAGES = ["torch", "transformers", "sentence-transformers", "onnxruntime", "optimum-onnx", "tokenizers", "huggingface_hub"]
CARDS = {"bert": ["compact", "masked"], "bert_sequence": ["compact", "masked"], "distilbert": ["compact"], "electra": ["compact"],
         "mpnet": ["compact"], "gpt2": ["compact"], "gpt_neox": ["compact"], "llama": ["compact", "uniform"], "qwen3": ["uniform"],
         "marian": ["compact"]}
ORIGINAL = """---
license: "mit\\n---\\nevil: yes"
language: no
pipeline_tag: fill-mask
base_model: org/name
tags: ["a\\"b", "---", '# x', !!python/name:os.system ]
---
# The original
"""
TOLERANCE = 2e-5  # of the largest number; two libraries that add float32 numbers in different orders


def blocks(text: str) -> list[tuple[str, str]]:
    """The code of a page, with its languages."""
    return re.findall(r"^```(console|python)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run_block(code: str) -> dict:
    names: dict = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, "block", "exec"), names)  # noqa: S102 - code of this repository and of its program
    if not printed.getvalue().strip():
        raise RuntimeError("the block prints nothing")
    return names


def difference(ours: object, theirs: object) -> float:
    a, b = numpy.array(ours, dtype=numpy.float64), numpy.asarray(theirs, dtype=numpy.float64)
    if a.shape != b.shape:
        raise RuntimeError(f"got the shape {b.shape}, expected {a.shape}")
    return float(abs(a - b).max() / abs(a).max())


def needed(code: str) -> list[str]:
    """Packages of a block that are missing."""
    names = re.findall(r"^(?:import|from) (\w+)", code, re.MULTILINE) + ["optimum"] * ('backend="onnx"' in code)
    return [name for name in names if importlib.util.find_spec(name) is None]


def check_page(program: str, model: pathlib.Path, report) -> None:
    pathlib.Path("minilm").symlink_to(model)
    for language, code in blocks((ROOT / "docs" / "deploy.md").read_text()):
        if language == "console":
            for line in code.splitlines():
                if line.startswith("$ headwise "):
                    headwise(program, *shlex.split(line)[2:])
            continue
        name = re.findall(r"^(?:import|from) (\w+)", code, re.MULTILINE)[-1] + (", backend onnx" if 'backend="onnx"' in code else "")
        if missing := needed(code):
            print(f"docs/deploy.md, {name}: skipped, {', '.join(missing)} is not installed")
            continue
        names = run_block(code)
        texts = [argument for sentence in names["sentences"] for argument in ("--text", sentence)]
        ours = [result["embedding"] for result in headwise(program, "run", "small", *texts)["results"]]
        report(f"docs/deploy.md, {name}", difference(ours, names["embeddings"]))


def with_tokenizer(source: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """A golden model, which has no tokenizer, with one that knows some words, and with a card."""
    shutil.copytree(source, folder)
    size = transformers.AutoConfig.from_pretrained(source).vocab_size
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "sentence", "about", "heads", "."]
    vocabulary = {word: i for i, word in enumerate(words + [f"w{i}" for i in range(size - len(words))])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]", model_input_names=["input_ids", "attention_mask"]
    ).save_pretrained(folder)
    (folder / "README.md").write_text(ORIGINAL)
    return folder


def check_metadata(folder: pathlib.Path) -> None:
    data = huggingface_hub.ModelCard.load(folder / "README.md", ignore_metadata_errors=False).data.to_dict()
    expected = {"language": "no", "library_name": "transformers", "pipeline_tag": "fill-mask", "base_model": "org/name",
                "tags": ['a"b', "---", "# x", "headwise", "pruned"]}
    if data != expected:
        raise RuntimeError(f"the metadata of the card is {data}")
    if (folder / "ORIGINAL.md").read_text() != ORIGINAL:
        raise RuntimeError("ORIGINAL.md is not the card of the original")


def check_card(program: str, source: pathlib.Path, form: str, folder: pathlib.Path) -> float:
    layers = layers_of(program, source)
    prune(program, source, even(layers, same=False) if form == "uniform" else uneven(layers), form, folder)
    check_metadata(folder)
    code = next(code for language, code in blocks((folder / "README.md").read_text()) if language == "python")
    if ("trust_remote_code" in code) != (form == "compact"):
        raise RuntimeError("trust_remote_code does not fit the form")
    # The golden models have room for about 20 tokens.
    code = code.replace("path/to/this/folder", str(folder)).replace("max_new_tokens=20", "max_new_tokens=4")
    names = run_block(code)
    ids = names["inputs"]["input_ids"]
    arguments = ["--ids", " ".join(map(str, ids[0].tolist()))]
    inputs = dict(names["inputs"])
    if names["model"].config.is_encoder_decoder:
        start = [names["model"].config.decoder_start_token_id, 5, 9]
        inputs["decoder_input_ids"] = torch.tensor([start])
        arguments += ["--decoder-ids", " ".join(map(str, start))]
    with torch.inference_mode():
        theirs = names["model"].eval()(**inputs).logits[0].float()
    ours = headwise(program, "run", str(folder), "--task", "logits", *arguments)["results"][0]["logits"]
    return difference(numpy.array(ours).reshape(theirs.shape), theirs)


def main() -> int:
    program, model = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2]).resolve()
    sys.path.remove(str(pathlib.Path(__file__).resolve().parent))  # onnx.py there is not the package
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            print(f"{package} {importlib.metadata.version(package)}")
    wrong, largest = 0, 0.0

    def report(name: str, found: float) -> None:
        nonlocal wrong, largest
        wrong, largest = wrong + (not found <= TOLERANCE), max(largest, found)
        print(f"{name}: {found:.1e}" + ("" if found <= TOLERANCE else " DIFFERS"), flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        os.chdir(temporary)
        check_page(program, model, report)
        old = transformers.__version__.startswith("4.")
        if old:
            print("model cards: skipped, their code is for transformers 5")
        for name, forms in ({} if old else CARDS).items():
            source = with_tokenizer(GOLDEN / name, pathlib.Path(f"{name}-original"))
            for form in forms:
                report(f"card of {name}, {form}", check_card(program, source, form, pathlib.Path(f"{name}-{form}").resolve()))
        os.chdir(ROOT)
    print(f"largest difference {largest:.1e}, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
