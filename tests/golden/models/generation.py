"""Greedy and beam search of transformers, from every sequence of a batch alone."""

from __future__ import annotations

import copy

import torch
from torch import nn

from cases import Case, Generate
from record import Batch, Tensors

Generated = tuple[list[torch.Tensor], torch.Tensor]


@torch.no_grad()
def generate(model: nn.Module, batch: Batch, how: Generate) -> Generated:
    """The new ids of every sequence, with the end token where it was reached, and the scores of beam search."""
    new_ids, scores = [], []
    for b, prompt in enumerate(batch.ids):
        out = model.generate(
            prompt[None],
            attention_mask=torch.ones_like(prompt)[None],
            num_beams=how.beams,
            length_penalty=how.length_penalty,
            early_stopping=how.early_stopping,
            max_new_tokens=how.max_new_tokens,
            do_sample=False,
            return_dict_in_generate=True,
            output_scores=True,
        )
        start = 1 if model.config.is_encoder_decoder else len(prompt)
        new_ids.append(out.sequences[0, start:])
        scores.append(out.sequences_scores[0] if how.beams > 1 else torch.zeros(()))
    return new_ids, torch.stack(scores)


def generated(case: Case, model: nn.Module, batch: Batch) -> Tensors:
    tensors: Tensors = {}
    exact = copy.deepcopy(model).double()
    limited = set()
    for at, how in enumerate(case.generate):
        new_ids, scores = generate(model, batch, how)
        for ours, theirs in zip(new_ids, generate(exact, batch, how)[0]):
            assert torch.equal(ours, theirs), f"{case.name}: a tie that rounding decides; take another seed"
        limited |= {len(ids) == how.max_new_tokens for ids in new_ids}
        tensors[f"generate.{at}.options"] = torch.tensor(
            [how.beams, how.length_penalty, how.early_stopping, how.max_new_tokens], dtype=torch.float32
        )
        tensors[f"generate.{at}.ids"] = torch.cat(new_ids)
        tensors[f"generate.{at}.lengths"] = torch.tensor([len(ids) for ids in new_ids])
        if how.beams > 1:
            tensors[f"generate.{at}.scores"] = scores
        print(f"  {how}: {[ids.tolist() for ids in new_ids]}")
    assert not case.generate or limited == {True, False}, f"{case.name}: all or none end; take another end token"
    return tensors
