"""What heads of models with trained weights look at, computed from transformers' stored maps.

Run with the pinned packages of ../requirements.txt:

    python make_observe.py minilm FOLDER
    python make_observe.py stories15m FOLDER

writes observe_NAME.json beside it: {"texts": [...], "heads": {"L0.H0": {"entropy": [value, n], ...}}}. Maps are float32 from eager
attention, every text alone; sums are float64.
"""
from __future__ import annotations

import collections
import json
import math
import pathlib
import string
import sys
import unicodedata

import torch
from make_real import SENTENCES, STORIES
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

K = 50  # repeated tokens


class Means:
    """Mean and n of every measure of every head."""

    def __init__(self) -> None:
        self.sums = collections.defaultdict(lambda: collections.defaultdict(lambda: [0.0, 0]))

    def add(self, head: str, name: str, value: float) -> None:
        entry = self.sums[head][name]
        entry[0] += value
        entry[1] += 1

    def result(self) -> dict:
        return {head: {name: [float(f"{s / n:.9g}"), n] for name, (s, n) in sorted(measures.items())}
                for head, measures in self.sums.items()}


def is_punctuation(text: str) -> bool:
    text = text.removeprefix("##").strip()
    return len(text) == 1 and (text in string.punctuation or unicodedata.category(text).startswith("P"))


def pearson(x: torch.Tensor, y: torch.Tensor) -> float | None:
    x, y = x - x.mean(), y - y.mean()
    scale = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / scale if scale > 0 else None


def look(means: Means, head: str, p: torch.Tensor, causal: bool, special: list[bool], marks: list[bool], counts: list[int],
         ids: list[int], cosines: torch.Tensor) -> None:
    n = p.shape[0]
    kept = [j for j in range(n) if not special[j]]
    for i in range(n):
        row, visible = p[i], i + 1 if causal else n
        entropy = -float(torch.special.xlogy(row, row).sum())
        means.add(head, "entropy", entropy)
        if visible > 1:
            means.add(head, "entropy_ratio", entropy / math.log(visible))
        largest = int(row[:visible].argmax())
        means.add(head, "confidence", float(row.max()))
        means.add(head, "distance", sum(float(row[j]) * abs(i - j) for j in range(n)))
        for name, j in (("mass_previous", i - 1), ("mass_self", i), ("mass_next", i + 1)):
            if 0 <= j < visible:
                means.add(head, name, float(row[j]))
        means.add(head, "mass_first", float(row[0]))
        if visible == n:
            means.add(head, "mass_last", float(row[n - 1]))
        means.add(head, "mass_special", sum(float(row[j]) for j in range(n) if special[j]))
        means.add(head, "mass_punctuation", sum(float(row[j]) for j in range(n) if marks[j]))
        means.add(head, "mass_window", sum(float(row[j]) for j in range(n) if abs(i - j) <= 2))
        for offset in range(-8, 9):
            if 0 <= i + offset < visible:
                means.add(head, f"offset_share/{offset}", float(largest == i + offset))
        seen = [j for j in kept if j < visible]
        if seen:
            rarest = min(counts[j] for j in seen)
            best = max(seen, key=lambda j: (float(row[j]), -j))
            means.add(head, "rare_share", float(counts[best] == rarest))
            means.add(head, "rare_chance", sum(counts[j] == rarest for j in seen) / len(seen))
        candidates = [j for j in seen if ids[j] != ids[i]]
        if len(candidates) >= 3:
            value = pearson(row[candidates], cosines[i, candidates])
            if value is not None:
                means.add(head, "semantic", value)


def contributions(outputs: list[torch.nn.Linear], heads: int, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """[H, N, C] per layer, in float64."""
    result = []
    for linear, z in zip(outputs, inputs, strict=True):
        weight = linear.weight.double().reshape(linear.out_features, heads, -1)
        result.append(torch.einsum("nhd,chd->hnc", z.double().reshape(z.shape[0], heads, -1), weight))
    return result


def observe(name: str, folder: str) -> dict:
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    causal = name != "minilm"
    kind = AutoModelForCausalLM if causal else AutoModel
    model = kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    config, heads = model.config, model.config.num_attention_heads
    outputs = [l.self_attn.o_proj for l in model.model.layers] if causal else [l.attention.output.dense for l in model.encoder.layer]
    texts = STORIES if causal else SENTENCES
    all_ids = [tokenizer(text)["input_ids"] for text in texts]
    frequency = collections.Counter(i for ids in all_ids for i in ids)
    special_ids = set(tokenizer.all_special_ids)
    words = model.get_input_embeddings().weight.double()
    means, squares, sums, rows = Means(), {}, {}, 0
    for ids in all_ids:
        seen: list[torch.Tensor] = []
        hooks = [o.register_forward_pre_hook(lambda _, x: seen.append(x[0][0])) for o in outputs]
        wholes: list[torch.Tensor] = []
        hooks += [o.register_forward_hook(lambda _m, _x, y: wholes.append(y[0])) for o in outputs]
        with torch.no_grad():
            out = model(torch.tensor([ids]), output_attentions=True, output_hidden_states=True)
        for hook in hooks:
            hook.remove()
        special = [i in special_ids for i in ids]
        marks = [is_punctuation(tokenizer.decode([i])) for i in ids]
        counts = [frequency[i] for i in ids]
        unit = torch.nn.functional.normalize(words[ids], dim=-1)
        rows += len(ids)
        if causal:
            final = model.model.norm
            last = {}
            hook = final.register_forward_pre_hook(lambda _, x: last.update(x=x[0][0]))
            with torch.no_grad():
                model(torch.tensor([ids]))
            hook.remove()
            scale = torch.rsqrt(last["x"].double().pow(2).mean(-1) + config.rms_norm_eps)
            table = model.get_output_embeddings().weight.double()
            direction = (table[ids[1:]] - table.mean(0)) * final.weight.double() * scale[:-1, None]
        for layer, parts in enumerate(contributions(outputs, heads, seen)):
            whole = wholes[layer].double().norm(dim=-1)
            for h in range(heads):
                head = f"L{layer}.H{h}"
                look(means, head, out.attentions[layer][0, h].double(), causal, special, marks, counts, ids, unit @ unit.T)
                for i, length in enumerate(parts[h].norm(dim=-1)):
                    means.add(head, "contribution_norm", float(length / whole[i]))
                squares[head] = squares.get(head, 0) + float(parts[h].pow(2).sum())
                sums[head] = sums.get(head, 0) + parts[h].sum(0)
                if causal:
                    for value in (parts[h][:-1] * direction).sum(-1):
                        means.add(head, "direct_logit", float(value))
    result = means.result()
    for head, measures in result.items():
        measures["constancy"] = [float(f"{float(sums[head].pow(2).sum()) / rows / squares[head]:.9g}"), rows]
    return {"texts": texts, "heads": result}


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("minilm", "stories15m"):
        sys.exit(__doc__)
    result = observe(sys.argv[1], sys.argv[2])
    path = pathlib.Path(__file__).parent / f"observe_{sys.argv[1]}.json"
    path.write_text(json.dumps(result, ensure_ascii=False) + "\n")
