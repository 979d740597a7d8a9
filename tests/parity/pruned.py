"""Loads pruned folders with transformers, and compares what they say with what headwise says.

    PYTHON tests/parity/pruned.py PROGRAM [MODEL...]

PROGRAM is headwise; models are folders of tests/golden/models, by default one of each architecture. Each is pruned by the
program in every form that it can have, unevenly, with a layer that has no heads left, and in a second round; the outputs of
the program and of transformers for the same ids are compared. The version of transformers is that of the interpreter: run it
with each version in turn.
"""

from __future__ import annotations

import json
import pathlib
import random
import shutil
import sys
import tempfile
import warnings

import torch
import transformers
from forms import all_forms, headwise

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "models"
MODELS = ["bert", "bert_sequence", "roberta", "xlm_roberta", "electra", "distilbert", "mpnet", "gpt2", "gpt_neox", "llama",
          "mistral", "qwen2", "qwen3", "smollm3", "marian", "t5"]
AUTO = {
    "ForMaskedLM": transformers.AutoModelForMaskedLM,
    "ForSequenceClassification": transformers.AutoModelForSequenceClassification,
    "ForCausalLM": transformers.AutoModelForCausalLM,
    "LMHeadModel": transformers.AutoModelForCausalLM,
    "MTModel": transformers.AutoModelForSeq2SeqLM,
    "ForConditionalGeneration": transformers.AutoModelForSeq2SeqLM,
}
TOLERANCE = 1e-4  # of the largest output; two libraries that add float32 numbers in different orders


def for_version_4(source: pathlib.Path, copy: pathlib.Path) -> pathlib.Path:
    """Version 4 knows no "rope_parameters", and would take its defaults instead."""
    shutil.copytree(source, copy)
    config = json.loads((copy / "config.json").read_text())
    rope = config.pop("rope_parameters", None)
    if rope is not None:
        config["rope_theta"] = rope["rope_theta"]
        config |= {"rotary_emb_base": rope["rope_theta"]} if config["model_type"] == "gpt_neox" else {}
        config |= {"rotary_pct": rope["partial_rotary_factor"]} if "partial_rotary_factor" in rope else {}
    (copy / "config.json").write_text(json.dumps(config))
    return copy


def compare(program: str, folder: pathlib.Path, remote: bool) -> float:
    config = json.loads((folder / "config.json").read_text())
    auto = next(auto for ending, auto in AUTO.items() if config["architectures"][0].endswith(ending))
    model = auto.from_pretrained(folder, trust_remote_code=remote).eval().float()
    draw = random.Random(1)
    ids = [draw.randrange(3, config["vocab_size"] - 3) for _ in range(11)]
    target = [draw.randrange(3, config["vocab_size"] - 3) for _ in range(7)]
    inputs = {"input_ids": torch.tensor([ids])}
    arguments = ["--ids", " ".join(map(str, ids))]
    if config.get("is_encoder_decoder"):
        start = [config["decoder_start_token_id"]]
        inputs["decoder_input_ids"] = torch.tensor([start + target])
        arguments += ["--decoder-ids", " ".join(map(str, start + target))]
    with torch.inference_mode():
        theirs = model(**inputs).logits.float()
        if hasattr(model, "generate") and model.can_generate():  # that the cache counts right
            how = {"max_new_tokens": 4, "do_sample": False}
            written = [model.generate(inputs["input_ids"], use_cache=cache, **how) for cache in (True, False)]
            if not torch.equal(*written):
                raise RuntimeError("the cache changes what is generated")
    ours = torch.tensor(headwise(program, "run", str(folder), "--task", "logits", *arguments)["results"][0]["logits"])
    return ((ours.view_as(theirs) - theirs).abs().max() / theirs.abs().max()).item()


def attempt(program: str, folder: pathlib.Path, remote: bool) -> str:
    try:
        difference = compare(program, folder, remote)
    except Exception as error:  # noqa: BLE001 - any reason not to load is a result
        return f"no ({type(error).__name__}: {str(error).strip().splitlines()[0][:60]})"
    return f"{difference:.1e}" + ("" if difference <= TOLERANCE else " DIFFERS")


def main() -> int:
    program, names = sys.argv[1], sys.argv[2:] or MODELS
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(f"transformers {transformers.__version__}")
    wrong = 0
    for name in names:
        with tempfile.TemporaryDirectory() as temporary:
            room, source = pathlib.Path(temporary), GOLDEN / name
            old = transformers.__version__.startswith("4.")
            if old:
                source = for_version_4(source, room / "source")
            # Its config takes numbers of layers, and there is more than one attention by that number.
            known = old and json.loads((source / "config.json").read_text()).get("is_encoder_decoder", False)
            for form, folder in all_forms(program, source, room).items():
                compact = form.startswith("compact")
                stock = attempt(program, folder, remote=False)
                own = attempt(program, folder, remote=True) if compact else "-"
                lost = (own if compact else stock).startswith("no") and not (compact and known)
                wrong += "DIFFERS" in stock + own or lost
                print(f"{name:15} {form:32} stock: {stock:75} its own code: {own}", flush=True)
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
