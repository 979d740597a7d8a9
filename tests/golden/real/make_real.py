"""What transformers computes from models with trained weights, a few values of each.

Run with the pinned packages of ../requirements.txt:

    python make_real.py minilm FOLDER        the folder that ./dev model minilm prints
    python make_real.py stories15m FOLDER
    python make_real.py stories260k FOLDER

writes NAME.safetensors beside it. float32, eager attention, every text alone. README.md names the tensors.
"""
from __future__ import annotations

import pathlib
import sys
from contextlib import ExitStack

import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

SENTENCES = [
    "A man is eating food.",
    "The quick brown fox jumps over the lazy dog, and then it sleeps for the rest of the afternoon.",
    "Attention heads can be gated, observed and removed.",
    "naïve café — 東京 🙂",
    "I",
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness.",
    "What is the capital of France? Paris.",
    "1,024 numbers; 3.14159; e-mail: someone@example.org",
]
STORIES = [
    "Once upon a time, there was a little girl named Lily.",
    "Tom and his dog went to the park. They saw a big red ball",
    "The sun",
]
COLUMN_STEP = {"stories15m": 64, "stories260k": 4}


def gates_of(layers: int, heads: int) -> torch.Tensor:
    """Some heads at 0, some at 0.5, different ones in every layer."""
    gates = torch.ones(layers, heads)
    for layer in range(layers):
        gates[layer, layer % heads] = 0
        gates[layer, (layer + 2) % heads] = 0.5
    return gates


def gated(outputs: list[torch.nn.Linear], gates: torch.Tensor) -> ExitStack:
    """Multiplies what enters the output projection of every attention, head by head."""
    hooks = ExitStack()
    for linear, gate in zip(outputs, gates, strict=True):
        per_column = gate.repeat_interleave(linear.in_features // len(gate))
        handle = linear.register_forward_pre_hook(lambda _, x, g=per_column: (x[0] * g,))
        hooks.callback(handle.remove)
    return hooks


def minilm(folder: str) -> tuple[list[str], dict[str, torch.Tensor]]:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    ids = [tokenizer(text, return_tensors="pt")["input_ids"] for text in SENTENCES]

    def run() -> list:
        return [model(each, output_hidden_states=True, output_attentions=True) for each in ids]

    def embedding(passes: list) -> torch.Tensor:
        pooled = torch.cat([one.last_hidden_state.mean(1) for one in passes])
        return torch.nn.functional.normalize(pooled, dim=-1)

    plain = run()
    config = model.config
    gates = gates_of(config.num_hidden_layers, config.num_attention_heads)
    with gated([layer.attention.output.dense for layer in model.encoder.layer], gates):
        under_gates = run()
    return SENTENCES, {
        "ids": torch.cat([each[0] for each in ids]),
        "lengths": torch.tensor([each.shape[1] for each in ids]),
        "hidden": torch.cat([one.last_hidden_state[0, :2] for one in plain]),
        "layers": torch.stack([hidden[0, 1] for hidden in plain[1].hidden_states]),
        "maps": torch.stack([weights[0, :, 1] for weights in plain[1].attentions]),
        "embedding": embedding(plain),
        "gates": gates,
        "gated.hidden": torch.cat([one.last_hidden_state[0, :2] for one in under_gates]),
        "gated.embedding": embedding(under_gates),
    }


def stories(folder: str, step: int) -> tuple[list[str], dict[str, torch.Tensor]]:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    ids = [tokenizer(text, return_tensors="pt")["input_ids"] for text in STORIES]

    def logits() -> torch.Tensor:
        return torch.cat([model(each).logits[0] for each in ids])

    plain = logits()
    last = torch.tensor([each.shape[1] for each in ids]).cumsum(0) - 1
    hidden = torch.cat([model.model(each).last_hidden_state[0, -1:] for each in ids])
    config = model.config
    gates = gates_of(config.num_hidden_layers, config.num_attention_heads)
    with gated([layer.self_attn.o_proj for layer in model.model.layers], gates):
        under_gates = logits()
    return STORIES, {
        "ids": torch.cat([each[0] for each in ids]),
        "lengths": torch.tensor([each.shape[1] for each in ids]),
        "hidden": hidden,
        "logits": plain[last][:, ::step],
        "best": plain.argmax(-1),
        "best.logit": plain.amax(-1),
        "log_sum_exp": plain.logsumexp(-1),
        "gates": gates,
        "gated.logits": under_gates[last][:, ::step],
        "gated.log_sum_exp": under_gates.logsumexp(-1),
    }


@torch.no_grad()
def main() -> None:
    torch.set_num_threads(1)
    name, folder = sys.argv[1:]
    texts, tensors = minilm(folder) if name == "minilm" else stories(folder, COLUMN_STEP[name])
    about = {
        "texts": "\n".join(texts),
        "torch": torch.__version__.split("+")[0],
        "transformers": transformers.__version__,
    }
    tensors = {key: value.clone().contiguous() for key, value in tensors.items()}
    save_file(tensors, pathlib.Path(__file__).parent / f"{name}.safetensors", about)


if __name__ == "__main__":
    main()
