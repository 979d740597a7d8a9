"""Runs a model on sequences, one at a time and padded together, and names what it computed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from families import as_tensor, attentions, is_seq2seq, layer_lists

Tensors = dict[str, torch.Tensor]
Gates = dict[str, torch.Tensor]

TOKEN_OUTPUTS = ("logits", "start_logits", "end_logits", "prediction_logits")
SEQUENCE_OUTPUTS = ("pooler_output", "seq_relationship_logits")
SEQUENCE_TASKS = ("ForSequenceClassification", "ForNextSentencePrediction")
NAMES = {"pooler_output": "pooled", "prediction_logits": "logits", "seq_relationship_logits": "pair_logits"}


@dataclass
class Batch:
    """Sequences of different lengths. Fields that a model does not take are None."""

    ids: list[torch.Tensor]
    type_ids: list[torch.Tensor] | None = None
    decoder_ids: list[torch.Tensor] | None = None

    def tensors(self) -> Tensors:
        named = {"ids": torch.cat(self.ids), "lengths": torch.tensor([len(s) for s in self.ids])}
        if self.type_ids:
            named["type_ids"] = torch.cat(self.type_ids)
        if self.decoder_ids:
            named["decoder_ids"] = torch.cat(self.decoder_ids)
            named["decoder_lengths"] = torch.tensor([len(s) for s in self.decoder_ids])
        return named

    def arguments(self, of: slice, pad: int = 0) -> dict[str, torch.Tensor]:
        def padded(sequences: list[torch.Tensor], value: int) -> torch.Tensor:
            return pad_sequence(sequences[of], batch_first=True, padding_value=value)

        named = {"input_ids": padded(self.ids, pad)}
        named["attention_mask"] = padded([torch.ones_like(s) for s in self.ids], 0)
        if self.type_ids:
            named["token_type_ids"] = padded(self.type_ids, 0)
        if self.decoder_ids:
            named["decoder_input_ids"] = padded(self.decoder_ids, pad)
        return named


def gate_hook(gates: torch.Tensor) -> Callable:
    def hook(_: nn.Module, arguments: tuple) -> tuple:
        mixed = arguments[0]
        heads = mixed.view(*mixed.shape[:-1], len(gates), -1)
        return ((heads * gates[:, None]).view(mixed.shape),)

    return hook


class Captured:
    """The input of the first layer and the output of every layer, as hooks see them."""

    def __init__(self, model: nn.Module, hooks: ExitStack):
        self.states: Tensors = {}
        for stack, layers in layer_lists(model):
            first = layers[0].register_forward_pre_hook(
                self.input_hook(stack.prefix + "embeddings"), with_kwargs=True
            )
            hooks.callback(first.remove)
            for l, layer in enumerate(layers):
                hooks.callback(layer.register_forward_hook(self.output_hook(f"{stack.prefix}L{l}.hidden")).remove)

    def input_hook(self, name: str) -> Callable:
        def hook(_: nn.Module, arguments: tuple, named: dict) -> None:
            self.states[name] = (arguments[0] if arguments else named["hidden_states"]).clone()

        return hook

    def output_hook(self, name: str) -> Callable:
        def hook(_: nn.Module, arguments: tuple, output: torch.Tensor | tuple) -> None:
            self.states[name] = as_tensor(output).clone()

        return hook


def check_states(states: Tensors, prefix: str, hidden: tuple[torch.Tensor, ...]) -> None:
    """Ours are transformers' `hidden_states`, but for the last, which it gives after the final norm."""
    ours = [states[prefix + "embeddings"], *(states[f"{prefix}L{l}.hidden"] for l in range(len(hidden) - 1))]
    for mine, theirs in zip(ours[:-1], hidden[:-1]):
        assert torch.equal(mine, theirs)


@torch.no_grad()
def call(model: nn.Module, arguments: dict[str, torch.Tensor], gates: Gates | None = None) -> Tensors:
    """One call: everything by name, still with the batch in front."""
    with ExitStack() as hooks:
        captured = Captured(model, hooks)
        for attention in attentions(model):
            if gates:
                hook = gate_hook(gates[attention.key])
                hooks.callback(attention.out.register_forward_pre_hook(hook).remove)
        output = model(**arguments, output_hidden_states=True, output_attentions=True, return_dict=True)

    named = captured.states
    if is_seq2seq(model):
        stacks = {"enc.": output.encoder_hidden_states, "dec.": output.decoder_hidden_states}
        maps = {
            "enc.": output.encoder_attentions,
            "dec.": output.decoder_attentions,
            "cross.": output.cross_attentions,
        }
    else:
        stacks, maps = {"": output.hidden_states}, {"": output.attentions}
    for prefix, hidden in stacks.items():
        check_states(named, prefix, hidden)
        named[prefix + "final"] = hidden[-1]
    for prefix, layers in maps.items():
        named.update({f"{prefix}L{l}.map": layer for l, layer in enumerate(layers)})
    for field in TOKEN_OUTPUTS + SEQUENCE_OUTPUTS:
        if getattr(output, field, None) is not None:
            named[NAMES.get(field, field)] = getattr(output, field)
    return named


def of_sequence(model: nn.Module, name: str) -> bool:
    """Whether an output is one row per sequence, not one per token."""
    sequence_task = type(model).__name__.endswith(SEQUENCE_TASKS)
    return name in (NAMES.get(field) for field in SEQUENCE_OUTPUTS) or name == "logits" and sequence_task


def check_padded(model: nn.Module, batch: Batch, alone: list[Tensors]) -> None:
    """Padding changes nothing: all sequences in one call, padded on the right, give what each gave alone."""
    pad = model.config.pad_token_id
    together = call(model, batch.arguments(slice(None), pad or 0))
    for b, single in enumerate(alone):
        for name, expected in single.items():
            found = together[name][b]
            if not of_sequence(model, name):
                found = found[tuple(slice(n) for n in expected[0].shape)]
            assert torch.allclose(found, expected[0], atol=2e-5, rtol=2e-5), (name, (found - expected[0]).abs().max())


def pack(model: nn.Module, alone: list[Tensors]) -> Tensors:
    """[T, …] for rows of tokens, [B, …] for rows of sequences, one flat vector for the maps."""
    packed = {}
    for name in alone[0]:
        values = [single[name] for single in alone]
        if name.endswith(".map"):
            packed[name] = torch.cat([v.flatten() for v in values])
        elif of_sequence(model, name):
            packed[name] = torch.cat(values)
        else:
            packed[name] = torch.cat([v[0] for v in values])
    return packed


def run(model: nn.Module, batch: Batch, gates: Gates | None = None) -> list[Tensors]:
    """Every sequence alone, without padding."""
    return [call(model, batch.arguments(slice(b, b + 1)), gates) for b in range(len(batch.ids))]


def entropy_ratio(maps: torch.Tensor) -> torch.Tensor:
    """Entropy over its largest value, of every row with two keys or more; 1 is uniform attention."""
    visible = (maps > 0).sum(-1)
    entropy = -(maps * maps.clamp_min(1e-30).log()).sum(-1)
    return (entropy / visible.clamp_min(2).log())[visible > 1]


def mean_entropy_ratio(alone: list[Tensors]) -> float:
    rows = [entropy_ratio(t) for single in alone for name, t in single.items() if name.endswith(".map")]
    return torch.cat(rows).mean().item()
