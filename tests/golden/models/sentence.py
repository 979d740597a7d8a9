"""Folders of sentence-transformers: an encoder, pooling, perhaps a dense layer, perhaps unit length."""

from __future__ import annotations

import json
import pathlib
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers as hf
from safetensors.torch import save_file

import encoders
from cases import Case, task

PREFIX = "sentence_transformers.models."
MODES = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
ACTIVATIONS = {"Tanh": torch.tanh, "Identity": lambda x: x}


@dataclass
class Sentence:
    """What follows the encoder. Several modes of pooling are concatenated, in the order of MODES."""

    modes: tuple[str, ...]
    dense: str = ""  # the name of its activation in torch.nn.modules
    dense_width: int = 11
    dense_bias: bool = True
    normalize: bool = False
    weights: dict[str, torch.Tensor] = field(default_factory=dict)


def pool(mode: str, tokens: torch.Tensor) -> torch.Tensor:
    """One sentence's [N, C] to [C]; there is no padding here."""
    n = tokens.shape[0]
    if mode == "cls":
        return tokens[0]
    if mode == "lasttoken":
        return tokens[-1]
    if mode == "max":
        return tokens.amax(0)
    if mode == "mean":
        return tokens.sum(0) / n
    if mode == "mean_sqrt_len":
        return tokens.sum(0) / n**0.5
    weights = torch.arange(1, n + 1, dtype=torch.float32)
    return (weights[:, None] * tokens).sum(0) / weights.sum()


def embed(sentence: Sentence, tokens: torch.Tensor) -> torch.Tensor:
    embedding = torch.cat([pool(mode, tokens) for mode in MODES if mode in sentence.modes])
    if sentence.dense:
        linear = torch.nn.functional.linear(
            embedding, sentence.weights["linear.weight"], sentence.weights.get("linear.bias")
        )
        embedding = ACTIVATIONS[sentence.dense](linear)
    if sentence.normalize:
        embedding = torch.nn.functional.normalize(embedding, dim=-1)
    return embedding


def write_json(file: pathlib.Path, values: Any) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(values, indent=2) + "\n")


def write_dense(folder: pathlib.Path, sentence: Sentence, width: int) -> None:
    torch.manual_seed(77)
    sentence.weights["linear.weight"] = torch.randn(sentence.dense_width, width) * width**-0.5
    if sentence.dense_bias:
        sentence.weights["linear.bias"] = torch.randn(sentence.dense_width) * 0.3
    activation = f"torch.nn.modules.{'linear' if sentence.dense == 'Identity' else 'activation'}.{sentence.dense}"
    write_json(
        folder / "config.json",
        {
            "in_features": width,
            "out_features": sentence.dense_width,
            "bias": sentence.dense_bias,
            "activation_function": activation,
        },
    )
    save_file(sentence.weights, folder / "model.safetensors", {"format": "pt"})


def write_modules(folder: pathlib.Path, sentence: Sentence, width: int) -> None:
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    pooling = {"word_embedding_dimension": width}
    pooling |= {name: mode in sentence.modes for mode, name in MODES.items()}
    write_json(folder / "1_Pooling" / "config.json", pooling | {"include_prompt": True})
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 16, "do_lower_case": False})
    if sentence.dense:
        modules.append(("2_Dense", "Dense"))
        write_dense(folder / "2_Dense", sentence, width * len(sentence.modes))
    if sentence.normalize:
        modules.append((f"{len(modules)}_Normalize", "Normalize"))
    listed = [
        {"idx": i, "name": str(i), "path": path, "type": PREFIX + kind} for i, (path, kind) in enumerate(modules)
    ]
    write_json(folder / "modules.json", listed)


def embeddings(case: Case, final: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    return torch.stack([embed(case.sentence, tokens) for tokens in final.split(lengths.tolist())])


def cases() -> list[Case]:
    def bert(name: str, sentence: Sentence) -> Case:
        return task(f"sentence_{name}", hf.BertModel, encoders.bert(**encoders.SMALL), sentence=sentence)

    def mpnet(name: str, sentence: Sentence) -> Case:
        return task(f"sentence_mpnet_{name}", hf.MPNetModel, encoders.mpnet(**encoders.SMALL), sentence=sentence)

    return [
        bert("mean", Sentence(("mean",), normalize=True)),
        bert("cls", Sentence(("cls",))),
        bert("max", Sentence(("max",))),
        bert("mean_sqrt_len", Sentence(("mean_sqrt_len",))),
        bert("weightedmean", Sentence(("weightedmean",), normalize=True)),
        bert("lasttoken", Sentence(("lasttoken",))),
        bert("several", Sentence(("max", "cls", "mean"))),
        bert("dense", Sentence(("mean",), dense="Tanh")),
        mpnet("mean", Sentence(("mean",), normalize=True)),
        mpnet("dense", Sentence(("cls",), dense="Identity", dense_bias=False, normalize=True)),
    ]
