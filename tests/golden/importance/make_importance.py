"""Golden importance of heads: losses of golden models (../models) and of trained ones with each head closed, or saying its mean,
and gradients of gates, by hooks on PyTorch models.

Run with the pinned packages of ../requirements.txt:

    python make_importance.py                          rewrites the files of golden models beside it
    python make_importance.py bert.mlm marian.translate    only these
    python make_importance.py stories15m.lm FOLDER     of a model with trained weights
    python make_importance.py minilm.fidelity FOLDER

README.md describes the files.
"""

from __future__ import annotations

import json
import pathlib
import sys
from contextlib import ExitStack

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).parent
MODELS = HERE.parent / "models"
sys.path.insert(0, str(MODELS))
sys.path.insert(0, str(HERE.parent / "real"))

from families import attentions  # noqa: E402
from make_real import SENTENCES, STORIES  # noqa: E402
from record import Batch  # noqa: E402
from sentence import MODES, pool  # noqa: E402

CASES = (
    "bert.mlm roberta.mlm mpnet.mlm gpt2.lm gpt_neox.lm llama.lm qwen3.lm bert_sequence.classify llama_sequence.classify "
    "marian.translate t5.translate sentence_mean.similarity sentence_several.similarity "
    "sentence_mean.fidelity sentence_cls.fidelity bert.fidelity gpt2.fidelity"
).split()
REAL = {"stories15m": STORIES, "minilm": SENTENCES}
STEP = 1e-4  # of gates, where a slope is a difference


class Examples:
    """Texts, what they should say, and the loss of each."""

    def __init__(self, case: str, folder: pathlib.Path | None) -> None:
        self.name, self.task = case.split(".")
        self.folder = folder or MODELS / self.name
        config = transformers.AutoConfig.from_pretrained(self.folder)
        self.model = getattr(transformers, config.architectures[0]).from_pretrained(
            self.folder, attn_implementation="eager", dtype=torch.float32
        ).double().eval()
        self.model.requires_grad_(False)
        self.batch = self.read_batch(folder is not None)
        torch.manual_seed(11)
        self.wanted = self.make_labels()

    def read_batch(self, real: bool) -> Batch:
        if real:
            tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder)
            return Batch([torch.tensor(tokenizer(text)["input_ids"]) for text in REAL[self.name]])
        stored = load_file(self.folder / "expected.safetensors")

        def split(ids: str, lengths: str) -> list[torch.Tensor] | None:
            return list(stored[ids].split(stored[lengths].tolist())) if ids in stored else None

        batch = Batch(split("ids", "lengths"), None, split("decoder_ids", "decoder_lengths"))
        if self.task == "similarity":  # pairs, more than one: every text with the next one
            texts = [text for text in batch.ids if len(text) > 0]
            batch.ids = [text for a, b in zip(texts, texts[1:] + texts[:1]) for text in (a, b)]
        return batch

    def make_labels(self) -> dict[str, torch.Tensor]:
        texts = len(self.batch.ids)
        if self.task == "lm":
            return {"labels": torch.cat([torch.cat([ids[1:], torch.tensor([-1])]) for ids in self.batch.ids])}
        if self.task == "classify":
            return {"labels": torch.arange(texts) % self.model.config.num_labels}
        if self.task == "similarity":
            return {"scores": torch.rand(texts // 2)}
        if self.task == "fidelity":
            return {}
        rows = torch.cat(self.batch.decoder_ids or self.batch.ids)
        size = getattr(self.model.config, "decoder_vocab_size", None) or self.model.config.vocab_size
        labels = torch.randint(size, rows.shape)
        labels[torch.rand(rows.shape) < 0.5] = -1
        return {"labels": labels}

    def embedding(self, hidden: torch.Tensor) -> torch.Tensor:
        file = self.folder / "1_Pooling" / "config.json"
        if not file.exists():
            return hidden.mean(0)
        config = json.loads(file.read_text())
        return torch.cat([pool(mode, hidden) for mode, field in MODES.items() if config.get(field)])

    def values(self) -> list[tuple[torch.Tensor, int]]:
        """Of every example what its loss is made from, and how many tokens it scores; every text alone."""
        calls = []
        for b in range(len(self.batch.ids)):
            calls.append(self.model(**self.batch.arguments(slice(b, b + 1)), output_hidden_states=True))
        if self.task in ("similarity", "fidelity"):
            pooled = [self.embedding(call.hidden_states[-1][0]) for call in calls]
            if self.task == "fidelity":
                return [(F.normalize(row, dim=0), 1) for row in pooled]
            return [(F.cosine_similarity(a, b, dim=0), 1) for a, b in zip(pooled[::2], pooled[1::2])]
        if self.task == "classify":
            return [(F.cross_entropy(call.logits[0], label), 1) for call, label in zip(calls, self.wanted["labels"])]
        lengths = [len(ids) for ids in self.batch.decoder_ids or self.batch.ids]
        values = []
        for call, labels in zip(calls, self.wanted["labels"].split(lengths)):
            loss = F.cross_entropy(call.logits[0], labels, ignore_index=-1, reduction="sum")
            values.append((loss, int((labels >= 0).sum())))
        return values


def spearman(a: torch.Tensor, b: torch.Tensor) -> float:
    def ranks(x: torch.Tensor) -> torch.Tensor:
        return torch.tensor([(x < v).sum() + ((x == v).sum() - 1) / 2 for v in x]).double()

    return float(torch.corrcoef(torch.stack([ranks(a), ranks(b)]))[0, 1])


def loss_of(examples: Examples, values: list, reference: list) -> float:
    if examples.task == "similarity":
        return 1 - spearman(torch.stack([value for value, _ in values]), examples.wanted["scores"])
    if examples.task == "fidelity":
        return float(sum(1 - value @ whole for (value, _), (whole, _) in zip(values, reference)) / len(values))
    return float(sum(value for value, _ in values) / sum(tokens for _, tokens in values))


class Heads:
    """Hooks in front of the output projections: gates, or means in the place of heads."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.sites = list(attentions(model))
        self.count = sum(site.heads for site in self.sites)
        self.gates = torch.ones(self.count, dtype=torch.float64)
        self.replaced: dict[int, torch.Tensor] = {}
        self.rows: list[list[torch.Tensor]] | None = None  # what each attention was given
        self.hooks = ExitStack()
        first = 0
        for number, site in enumerate(self.sites):
            self.hooks.callback(site.out.register_forward_pre_hook(self.hook(number, first, site.heads)).remove)
            first += site.heads

    def hook(self, number: int, first: int, heads: int):
        def change(_: torch.nn.Module, arguments: tuple) -> tuple:
            mixed = arguments[0]
            parts = mixed.reshape(*mixed.shape[:-1], heads, -1)
            if self.rows is not None:
                self.rows[number].append(parts.reshape(-1, heads, parts.shape[-1]))
            parts = parts * self.gates[first:first + heads, None]
            for head, mean in self.replaced.items():
                if first <= head < first + heads:
                    parts = torch.cat([parts[..., :head - first, :], mean.expand(*parts.shape[:-2], 1, -1),
                                       parts[..., head - first + 1:, :]], dim=-2)
            return (parts.reshape(mixed.shape),)

        return change

    def means(self, run) -> list[torch.Tensor]:
        self.rows = [[] for _ in self.sites]
        run()
        means = [torch.cat(rows).mean(0) for rows in self.rows]
        self.rows = None
        return [mean[h] for mean in means for h in range(mean.shape[0])]


def gradient(examples: Examples, heads: Heads) -> torch.Tensor:
    if examples.task == "fidelity":
        scores = torch.zeros(heads.count)
        with torch.no_grad():
            for h in range(heads.count):
                sides = []
                for side in (STEP, -STEP):
                    heads.gates[h] = 1 + side
                    sides.append(examples.values())
                heads.gates[h] = 1
                slopes = [(a - b) / (2 * STEP) for (a, _), (b, _) in zip(*sides)]
                scores[h] = sum(slope @ slope / 2 for slope in slopes) / len(slopes)
        return scores
    heads.gates.requires_grad_()
    rows = []
    for value, tokens in examples.values():
        if tokens > 0:
            rows.append(torch.autograd.grad(value / tokens, heads.gates, retain_graph=True)[0].abs())
    heads.gates.requires_grad_(False)
    return torch.stack(rows).mean(0)


def importance(case: str, folder: pathlib.Path | None = None) -> None:
    examples = Examples(case, folder)
    heads = Heads(examples.model)
    tensors = examples.batch.tensors() | examples.wanted
    tensors["gradient"] = gradient(examples, heads).detach().float()
    with torch.no_grad():
        reference = examples.values()
        means = heads.means(examples.values)
        base = loss_of(examples, reference, reference)
        zero, mean = [], []
        for h in range(heads.count):
            heads.gates[h] = 0
            zero.append(loss_of(examples, examples.values(), reference) - base)
            heads.gates[h] = 1
            heads.replaced = {h: means[h]}
            mean.append(loss_of(examples, examples.values(), reference) - base)
            heads.replaced = {}
    tensors |= {"loss": torch.tensor([base]), "zero": torch.tensor(zero), "mean": torch.tensor(mean)}
    versions = f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, HERE / f"{case}.safetensors",
              {"source": f"{type(examples.model).__name__}, {versions}"})
    print(f"{case}: loss {base:.4f}, {heads.count} heads")


def main() -> None:
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    chosen = sys.argv[1:]
    if len(chosen) == 2 and chosen[0].split(".")[0] in REAL:
        importance(chosen[0], pathlib.Path(chosen[1]))
        return
    for case in CASES:
        if not chosen or case in chosen:
            importance(case)


if __name__ == "__main__":
    main()
