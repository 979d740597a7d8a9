"""Records the losses of single sentences with one head ablated, for tests of intervals.

usage: make_losses.py MINILM STORIES15M

Both are model folders. Made with torch 2.15 and transformers 5.23. The sentences are the built-in texts of headwise.
Every third head is recorded. Each file has `base` [n], `ablated` [heads, n], both sums over the scored tokens of a
sentence, and `tokens` [n]; MiniLM's loss is fidelity (1 - cosine with the pooled output of the unchanged model, one
"token" per sentence), stories15m's is the negative log likelihood of the next tokens.
"""

import pathlib
import re
import sys

import numpy as np
import torch
from safetensors.numpy import save_file
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

ROOT = pathlib.Path(__file__).resolve().parents[3]
EVERY = 3


def sentences():
    lines = []
    for name in ("sample_text.cc", "longer_sample_text.cc"):
        source = (ROOT / "src/text" / name).read_text()
        for part in re.findall(r'R"[A-Za-z]*\((.*?)\)[A-Za-z]*"', source, re.S):
            lines += [line for line in part.split("\n") if line]
    return lines


def batches(tokenizer, lines, size=64):
    """Batches of sentences of similar length, with the numbers of the sentences."""
    order = sorted(range(len(lines)), key=lambda i: len(lines[i]))
    for at in range(0, len(order), size):
        numbers = order[at : at + size]
        yield numbers, tokenizer([lines[i] for i in numbers], padding=True, return_tensors="pt")


def ablate(projection, head, width):
    """A hook that zeroes a head's slice of the input of the output projection."""

    def hook(module, args):
        x = args[0].clone()
        x[..., head * width : (head + 1) * width] = 0
        return (x, *args[1:])

    return projection.register_forward_pre_hook(hook)


def record(projections, heads, width, losses):
    """Losses [1 + recorded heads, n] of the unchanged model and with each recorded head ablated."""
    rows = [losses()]
    for number in range(0, len(projections) * heads, EVERY):
        handle = ablate(projections[number // heads], number % heads, width)
        rows.append(losses())
        handle.remove()
    return np.stack(rows)


def minilm(folder, lines):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    inputs = list(batches(tokenizer, lines))
    reference = {}

    def losses():
        values = np.zeros(len(lines))
        for numbers, batch in inputs:
            hidden = model(**batch).last_hidden_state.double()
            mask = batch["attention_mask"].unsqueeze(-1).double()
            pooled = (hidden * mask).sum(1) / mask.sum(1)
            unit = pooled / pooled.norm(dim=-1, keepdim=True)
            first = reference.setdefault(numbers[0], unit)
            values[numbers] = ((unit - first) ** 2).sum(-1).numpy() / 2
        return values

    config = model.config
    projections = [layer.attention.output.dense for layer in model.encoder.layer]
    heads = config.num_attention_heads
    return record(projections, heads, config.hidden_size // heads, losses), np.ones(len(lines))


def stories(folder, lines):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    texts = [[tokenizer.bos_token_id] + tokenizer(line, add_special_tokens=False)["input_ids"] for line in lines]

    # Padding at the end changes nothing before it: attention is causal.
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    inputs = []
    for at in range(0, len(order), 16):
        numbers = order[at : at + 16]
        ids = torch.full((len(numbers), len(texts[numbers[-1]])), -100)
        for row, i in enumerate(numbers):
            ids[row, : len(texts[i])] = torch.tensor(texts[i])
        inputs.append((numbers, ids))

    def losses():
        values = np.zeros(len(texts))
        for numbers, ids in inputs:
            logits = model(ids.clamp(min=0)).logits[:, :-1]
            each = torch.nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
            values[numbers] = each.double().sum(-1).numpy()
        return values

    config = model.config
    projections = [layer.self_attn.o_proj for layer in model.model.layers]
    width = config.hidden_size // config.num_attention_heads
    rows = record(projections, config.num_attention_heads, width, losses)
    return rows, np.array([len(text) - 1 for text in texts])


def save(name, rows, tokens):
    rows = rows.astype(np.float32)
    save_file({"base": rows[0], "ablated": rows[1:], "tokens": tokens.astype(np.float32)},
              pathlib.Path(__file__).parent / name)


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    save("minilm.fidelity.safetensors", *minilm(sys.argv[1], sentences()))
    save("stories15m.lm.safetensors", *stories(sys.argv[2], sentences()))
