"""A study the plain PyTorch way: label-free statistics of all heads, and losses without heads. What a case asks for:

    {"folder": F, "ids": [[…], …], "stages": [{"texts": [5, 0, …], "sets": [[17], [3, 140], …]}, …], "threads": 2}
        first the statistics of every text, then, stage by stage, the loss of the texts without each set of heads: fidelity,
        1 - the cosine of the mean of the hidden states with that of the whole model. Heads are numbered layer by layer.
    Outputs: the entropy of every head; the seconds of the statistics, of the pass of the whole model, and of every stage; the
    losses of every stage [sets, texts]

A pass of the ablations has several sets at once, each with texts of one length: nothing is padded, and products are large. On
MiniLM, one thread, this took 0.8 of the CPU's time of a pass per set over texts padded to similar lengths (batches of 1,024
or 2,048 tokens; measured once, on a busy machine).
"""

import time

import torch

from peer_observe import Look, load, outputs_of

TOKENS = 2048  # of a pass


def batches_of(ids):
    """Texts of one length, at most 2,048 tokens: their numbers, and their tokens [B, N]."""
    by_length = {}
    for text, tokens in enumerate(ids):
        by_length.setdefault(len(tokens), []).append(text)
    batches = []
    for n, texts in sorted(by_length.items()):
        size = max(1, 2048 // n)
        for at in range(0, len(texts), size):
            batches.append((texts[at : at + size], torch.tensor([ids[text] for text in texts[at : at + size]])))
    return batches


def pooled(model, ids):
    return torch.nn.functional.normalize(model(input_ids=ids).last_hidden_state.mean(1), dim=-1)


class Ablation:
    """Losses of texts without sets of heads."""

    def __init__(self, model, ids):
        self.model, self.ids = model, ids
        self.layers, self.heads = len(outputs_of(model)), model.config.num_attention_heads
        self.gates = None  # [B, layers, heads] of the pass under way
        for layer, linear in enumerate(outputs_of(model)):
            linear.register_forward_pre_hook(lambda _, x, layer=layer: self.close(x[0], layer))

    def close(self, z, layer):
        if self.gates is None or self.whole[layer]:
            return None
        b, n, c = z.shape
        return ((z.view(b, n, self.heads, -1) * self.gates[:, layer, None, :, None]).view(b, n, c),)

    def run_base(self):
        self.base = torch.empty(len(self.ids), self.model.config.hidden_size)
        for texts, ids in batches_of(self.ids):
            self.base[texts] = pooled(self.model, ids)

    def run(self, texts, sets):
        gates = torch.ones(len(sets), self.layers * self.heads)
        for row, heads in enumerate(sets):
            gates[row, heads] = 0
        gates = gates.view(len(sets), self.layers, self.heads)
        losses = torch.empty(len(sets), len(texts))
        base = self.base[texts]
        for columns, ids in batches_of([self.ids[text] for text in texts]):
            b, n = ids.shape
            for rows in torch.arange(len(sets)).split(max(1, TOKENS // (b * n))):
                self.gates = gates[rows].repeat_interleave(b, 0)
                self.whole = self.gates.all(2).all(0).tolist()
                changed = pooled(self.model, ids.repeat(len(rows), 1)).view(len(rows), b, -1)
                losses[rows[:, None], torch.tensor(columns)] = 1 - (changed * base[columns]).sum(-1)
        self.gates = None
        return losses


def prepare(case):
    torch.set_num_threads(case["threads"])
    look = Look(load(case["folder"], "BertModel", "eager"), case["ids"])
    ablation = Ablation(load(case["folder"], "BertModel", "sdpa"), case["ids"])
    batches = [ids for _, ids in batches_of(case["ids"])]
    found = []

    @torch.inference_mode()
    def run():
        times = [time.perf_counter()]
        look.run(batches)
        times.append(time.perf_counter())
        ablation.run_base()
        times.append(time.perf_counter())
        losses = []
        for stage in case["stages"]:
            losses.append(ablation.run(stage["texts"], stage["sets"]))
            times.append(time.perf_counter())
        seconds = torch.tensor(times, dtype=torch.double).diff()
        entropy = torch.stack([sums["entropy"][0] / sums["entropy"][1] for sums in look.sums])
        found[:] = [entropy, seconds, *losses]

    return run, lambda: found
