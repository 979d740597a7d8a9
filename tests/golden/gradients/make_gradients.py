"""Golden gradients: the loss of the golden models (../models) on a batch, its gradients, and 200 steps of AdamW, by PyTorch.

Run with the pinned packages of ../requirements.txt:

    python make_gradients.py                  rewrites every file beside it
    python make_gradients.py bert marian      only these

README.md describes the files.
"""

from __future__ import annotations

import pathlib
import sys
from contextlib import ExitStack

import torch
import torch.nn.functional as F
import transformers
from safetensors import safe_open
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).parent
MODELS = HERE.parent / "models"
sys.path.insert(0, str(MODELS))

import heads  # noqa: E402
from families import attentions  # noqa: E402
from record import Batch, gate_hook  # noqa: E402
from sentence import MODES, pool  # noqa: E402

GRADIENTS = (
    "bert bert_sequence bert_token bert_regression bert_next_sentence bert_pretraining bert_untied "
    "roberta roberta_sequence xlm_roberta xlm_roberta_regression "
    "distilbert distilbert_sequence electra electra_sequence mpnet mpnet_sequence "
    "gpt2 gpt2_sequence gpt2_scaled_by_layer gpt_neox gpt_neox_sequential gpt_neox_no_attention_bias "
    "llama llama_tied llama_biases llama_sequence llama_regression llama_rope_yarn "
    "mistral qwen2 qwen3 smollm3 marian marian_apart t5 t5_gated "
    "sentence_mean sentence_several sentence_max sentence_mpnet_mean "
    "bert_fixed llama_fixed llama_routed gpt2_mixed marian_mixed"
).split()
STEPS = "bert_sequence gpt2 marian".split()
SMOOTHING = 0.1
ENTRIES = 16


def load(name: str) -> torch.nn.Module:
    if name in heads.CASES:
        return heads.build(name)
    config = transformers.AutoConfig.from_pretrained(MODELS / name)
    model = getattr(transformers, config.architectures[0]).from_pretrained(
        MODELS / name, attn_implementation="eager", dtype=torch.float32
    )
    return model.eval()


def pools(name: str) -> tuple[str, ...]:
    import json

    config = json.loads((MODELS / name / "1_Pooling" / "config.json").read_text())
    return tuple(mode for mode, field in MODES.items() if config.get(field))


def read_batch(name: str) -> Batch:
    stored = load_file(MODELS / name / "expected.safetensors")

    def split(ids: str, lengths: str) -> list[torch.Tensor] | None:
        return list(stored[ids].split(stored[lengths].tolist())) if ids in stored else None

    batch = Batch(split("ids", "lengths"), split("type_ids", "lengths"), split("decoder_ids", "decoder_lengths"))
    if name.startswith("sentence"):  # pairs: the last text again with the first
        batch.ids.append(batch.ids[0])
        if batch.type_ids:
            batch.type_ids.append(batch.type_ids[0])
    return batch


def kind(model: torch.nn.Module) -> str:
    name = type(model).__name__
    if name.endswith(("ForSequenceClassification", "ForNextSentencePrediction")):
        return "regression" if model.config.num_labels == 1 else "texts"
    return "pairs" if name.endswith("Model") and "LMHead" not in name and "MTModel" not in name else "tokens"


def vocabulary(model: torch.nn.Module) -> int:
    return getattr(model.config, "decoder_vocab_size", None) or model.config.vocab_size


def wanted(model: torch.nn.Module, batch: Batch) -> dict[str, torch.Tensor]:
    """Labels of tokens (some not scored) or of texts, or scores."""
    torch.manual_seed(7)
    texts = len(batch.ids)
    of = kind(model)
    if of == "pairs":
        return {"scores": torch.rand(texts // 2)}
    if of == "regression":
        return {"scores": torch.randn(texts)}
    if of == "texts":
        return {"labels": torch.arange(texts) % model.config.num_labels}
    rows = torch.cat(batch.decoder_ids or batch.ids)
    token_classes = type(model).__name__.endswith("ForTokenClassification")
    outputs = model.config.num_labels if token_classes else vocabulary(model)
    labels = torch.randint(outputs, rows.shape)
    labels[torch.rand(rows.shape) < 0.2] = -1
    return {"labels": labels}


def logits_of(output) -> torch.Tensor:
    return output.prediction_logits if hasattr(output, "prediction_logits") else output.logits


def loss_of(name: str, model: torch.nn.Module, batch: Batch, want: dict[str, torch.Tensor]) -> torch.Tensor:
    """The sum over all that is scored; every text alone, and so without padding."""
    calls = [model(**batch.arguments(slice(b, b + 1))) for b in range(len(batch.ids))]
    of = kind(model)
    if of == "pairs":
        rows = [torch.cat([pool(mode, call.last_hidden_state[0]) for mode in pools(name)]) for call in calls]
        cosines = torch.stack([F.cosine_similarity(a, b, dim=0) for a, b in zip(rows[::2], rows[1::2])])
        return ((cosines - want["scores"].to(cosines.dtype)) ** 2).sum()
    logits = torch.cat([logits_of(call) if of != "tokens" else logits_of(call)[0] for call in calls])
    if of == "regression":
        return ((logits[:, 0] - want["scores"].to(logits.dtype)) ** 2).sum()
    loss = F.cross_entropy(logits, want["labels"], ignore_index=-1, reduction="sum", label_smoothing=SMOOTHING)
    return loss + (want["labels"] >= 0).sum() * heads.balance(model)


def digest(gradient: torch.Tensor) -> list[float]:
    """The norm, a projection on fixed numbers in [-0.5, 0.5), and some entries."""
    g = gradient.detach().double().flatten()
    n = torch.arange(g.numel())
    projection = (g * ((n * 2654435761 % 2**32).double() / 2**32 - 0.5)).sum()
    entries = [g[(2 * j + 1) * g.numel() // (2 * ENTRIES)].item() for j in range(ENTRIES)]
    return [g.norm().item(), projection.item(), *entries]


def write(file: pathlib.Path, model: torch.nn.Module, tensors: dict[str, torch.Tensor], **metadata: str) -> None:
    versions = f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"
    metadata["source"] = f"{type(model).__name__}, {versions}"
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, file, metadata)


def stored_parameters(name: str, model: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    """What has a gradient, under the name that the checkpoint has for it."""
    with safe_open(MODELS / name / "model.safetensors", "pt") as file:
        stored = set(file.keys())
    renamed = {"lm_head.weight": "embed_out.weight"} if model.config.model_type == "gpt_neox" else {}
    named = {}
    for n, p in model.named_parameters(remove_duplicate=False):
        if p.requires_grad and p.grad is not None and renamed.get(n, n) in stored:
            named[renamed.get(n, n)] = p
    assert {id(p) for p in named.values()} == {id(p) for p in model.parameters() if p.grad is not None}
    return list(named.items())


def gradients(name: str) -> None:
    model = load(name).double()
    batch = read_batch(name)
    want = wanted(model, batch)
    loss = loss_of(name, model, batch, want)
    loss.backward()
    named = stored_parameters(name, model)
    rows = [digest(p.grad) for _, p in named]

    gates = {}
    with ExitStack() as hooks:
        for attention in attentions(model):
            values = 0.5 + 0.25 * ((torch.arange(attention.heads) + len(gates)) % 4).double()
            gates[attention.key] = values.requires_grad_()
            hooks.callback(attention.out.register_forward_pre_hook(gate_hook(values)).remove)
        gated = loss_of(name, model, batch, want)
        dgates = torch.autograd.grad(gated, list(gates.values()))
    tensors = batch.tensors() | want
    tensors["loss"] = loss.detach().float()[None]
    tensors["gradients"] = torch.tensor(rows)
    tensors["gates"] = torch.cat([g.detach() for g in gates.values()]).float()
    tensors["gated_loss"] = gated.detach().float()[None]
    tensors["dgates"] = torch.cat(dgates).float()
    write(HERE / f"{name}.safetensors", model, tensors, names="\n".join(n for n, _ in named))
    print(f"{name}: loss {loss.item():.4f}, {len(named)} tensors")


def steps(name: str) -> None:
    """200 steps of AdamW on four batches in turn: the texts in four orders, with labels of their own."""
    model = load(name)
    batch = read_batch(name)
    decays = [p for p in model.parameters() if p.requires_grad and p.ndim > 1]
    others = [p for p in model.parameters() if p.requires_grad and p.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decays, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}],
        lr=5e-4, betas=(0.9, 0.98), eps=1e-8,
    )
    wants = []
    torch.manual_seed(8)
    for _ in range(4):
        want = wanted(model, batch)
        size = model.config.num_labels if kind(model) == "texts" else vocabulary(model)
        labels = torch.randint(size, want["labels"].shape, generator=torch.Generator().manual_seed(len(wants)))
        wants.append({"labels": torch.where(want["labels"] < 0, -1, labels)})
    losses = []
    for step in range(200):
        want = wants[step % 4]
        loss = loss_of(name, model, batch, want) / (want["labels"] >= 0).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    tensors = batch.tensors() | {f"labels.{i}": want["labels"] for i, want in enumerate(wants)}
    tensors["losses"] = torch.tensor(losses)
    write(HERE / f"{name}.steps.safetensors", model, tensors)
    print(f"{name}: 200 steps, loss {losses[0]:.4f} to {losses[-1]:.4f}")


def main() -> None:
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    chosen = sys.argv[1:]
    for name in GRADIENTS:
        if not chosen or name in chosen:
            gradients(name)
    for name in STEPS:
        if not chosen or name in chosen:
            steps(name)


if __name__ == "__main__":
    main()
