"""Observation the plain PyTorch way. What a case asks for:

    {"op": "look", "folder": F, "ids": [[…], …], "threads": 2}
        every label-free statistic of every head from the maps of eager attention; texts are sorted by length, and those of
        one length are a batch of at most 2,048 tokens. Outputs: the entropy of every head
    {"op": "ablation", "every": 8, "folder": F, "task": "fidelity" or "lm", "ids": […], "positions": [[…], …] or [], "threads": 2}
        the loss without each head, one hooked pass for each, minus that of the model. Outputs: one number per head
    {"op": "gradient", "folder": F, "ids": […], "classes": […], "together": true, "threads": 2}
        the mean over texts of |dL/dg|, gates as a leaf [B, H], weights frozen; or one text at a time.
        L: that of the classes if there are any, else of the next tokens
"""

import math

import torch


def load(folder, name, attention):
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    model = getattr(transformers, name).from_pretrained(
        folder,
        attn_implementation=attention,
        dtype=torch.float32,
        **({"add_pooling_layer": False} if name == "BertModel" else {}),
    )
    return model.eval().requires_grad_(False)


def outputs_of(model):
    """The output projection of every attention."""
    if hasattr(model, "transformer"):
        return [block.attn.c_proj for block in model.transformer.h]
    return [layer.attention.output.dense for layer in getattr(model, "bert", model).encoder.layer]


def weight_of(linear):
    """[C, H D]"""
    return linear.weight if isinstance(linear, torch.nn.Linear) else linear.weight.T


class Look:
    """Sums of every label-free statistic, added up batch by batch; all texts of a batch are of one length."""

    OFFSETS = range(-8, 9)

    def __init__(self, model, ids):
        self.model = model
        self.heads = model.config.num_attention_heads
        self.frequency = torch.bincount(torch.tensor([i for text in ids for i in text]))
        self.words = torch.nn.functional.normalize(model.get_input_embeddings().weight, dim=-1)
        self.factors = [weight_of(linear).reshape(linear.weight.shape[0], self.heads, -1) for linear in outputs_of(model)]

    @torch.inference_mode()
    def run(self, batches):
        layers = len(self.factors)
        self.sums = [{} for _ in range(layers)]
        for ids in batches:
            inputs, wholes, hooks = [], [], []
            for linear in outputs_of(self.model):
                hooks.append(linear.register_forward_pre_hook(lambda _, x: inputs.append(x[0])))
                hooks.append(linear.register_forward_hook(lambda _m, _x, y: wholes.append(y)))
            out = self.model(input_ids=ids, output_attentions=True)
            for hook in hooks:
                hook.remove()
            shared = self.shared(ids)
            for layer in range(layers):
                self.add(layer, out.attentions[layer], inputs[layer], wholes[layer], shared)

    def shared(self, ids):
        """What all layers need of a batch."""
        n = ids.shape[1]
        i = torch.arange(n)
        words = self.words[ids]
        candidates = ids[:, :, None] != ids[:, None, :]
        counts = self.frequency[ids]
        return {
            "distance": (i[:, None] - i[None, :]).abs().float(),
            "cosines": words @ words.transpose(1, 2),
            "candidates": candidates,
            "rarest": counts == counts.min(-1, keepdim=True).values,
        }

    def add(self, layer, maps, z, whole, shared):
        b, h, n, _ = maps.shape
        sums = self.sums[layer]

        def put(name, values, rows):  # values [H]
            total, count = sums.get(name, (0, 0))
            sums[name] = (total + values, count + rows)

        entropy = torch.special.entr(maps).sum(-1)
        put("entropy", entropy.sum((0, 2)), b * n)
        if n > 1:
            put("entropy_ratio", entropy.sum((0, 2)) / math.log(n), b * n)
        top = maps.max(-1)
        put("confidence", top.values.sum((0, 2)), b * n)
        put("distance", (maps * shared["distance"]).sum((0, 2, 3)), b * n)
        for name, offset in (("previous", -1), ("self", 0), ("next", 1)):
            if abs(offset) < n:
                put(name, maps.diagonal(offset, 2, 3).sum((0, 2)), b * (n - abs(offset)))
        put("first", maps[..., 0].sum((0, 2)), b * n)
        put("last", maps[..., -1].sum((0, 2)), b * n)
        put("window", sum(maps.diagonal(o, 2, 3).sum((0, 2)) for o in range(-2, 3) if abs(o) < n), b * n)
        shift = top.indices - torch.arange(n)
        for offset in self.OFFSETS:
            if abs(offset) < n:
                put(f"offset {offset}", (shift == offset).sum((0, 2)), b * (n - abs(offset)))
        hit = shared["rarest"][:, None, None, :].expand(b, h, n, n).gather(3, top.indices[..., None])
        put("rare", hit.sum((0, 2, 3)), b * n)
        self.semantic(maps, shared, put)
        contributions = torch.einsum("bnhd,chd->bhnc", z.view(b, n, h, -1), self.factors[layer])
        length = contributions.norm(dim=-1)
        put("contribution", (length / whole.norm(dim=-1)[:, None]).sum((0, 2)), b * n)
        put("squares", length.square().sum((0, 2)), b * n)
        put("mean", contributions.sum((0, 2)), b * n)

    @staticmethod
    def semantic(maps, shared, put):
        b, h, n, _ = maps.shape
        rows = slice(None) if n <= 256 else torch.randperm(n)[:256].sort().values
        mask = shared["candidates"][:, None, rows].float()
        count = mask.sum(-1)
        p, c = maps[:, :, rows] * mask, shared["cosines"][:, None, rows] * mask
        sp, sc = p.sum(-1), c.sum(-1)
        covariance = (p * c).sum(-1) - sp * sc / count
        deviation = ((p.square().sum(-1) - sp.square() / count) * (c.square().sum(-1) - sc.square() / count)).sqrt()
        correlation = torch.where((count >= 3) & (deviation > 0), covariance / deviation, 0)
        put("semantic", correlation.nan_to_num().sum((0, 2)), int((count >= 3).sum()))


def look(case):
    model = load(case["folder"], "BertModel", "eager")
    by_length = {}
    for text in case["ids"]:
        by_length.setdefault(len(text), []).append(text)
    batches = []
    for n, texts in sorted(by_length.items()):
        size = max(1, 2048 // n)
        batches += [torch.tensor(texts[at : at + size]) for at in range(0, len(texts), size)]
    work = Look(model, case["ids"])
    return lambda: work.run(batches), lambda: [torch.stack([s["entropy"][0] / s["entropy"][1] for s in work.sums])]


def losses(model, case, ids):
    if case["task"] == "fidelity":
        pooled = model(input_ids=ids).last_hidden_state.mean(1)
        return torch.nn.functional.normalize(pooled, dim=-1)
    hidden = model.transformer(input_ids=ids).last_hidden_state[:, :-1]
    labels = ids[:, 1:]
    if case["positions"]:
        rows = [torch.tensor(p, dtype=torch.long) - 1 for p in case["positions"]]
        hidden = torch.cat([hidden[b, r] for b, r in enumerate(rows)])
        labels = torch.cat([labels[b, r] for b, r in enumerate(rows)])
    return torch.nn.functional.cross_entropy(model.lm_head(hidden).flatten(0, -2), labels.flatten())


@torch.inference_mode()
def ablation(case):
    """Closes every case["every"]th head: all passes cost the same."""
    model = load(case["folder"], "GPT2LMHeadModel" if case["task"] == "lm" else "BertModel", "sdpa")
    ids = torch.tensor(case["ids"])
    heads = model.config.num_attention_heads
    base = losses(model, case, ids)
    places = [(linear, h) for linear in outputs_of(model) for h in range(heads)][:: case["every"]]
    found = []

    @torch.inference_mode()
    def run():
        found.clear()
        for linear, h in places:

            def close(_, x, h=h):
                z = x[0].clone()
                width = z.shape[-1] // heads
                z[..., h * width : (h + 1) * width] = 0
                return (z,)

            hook = linear.register_forward_pre_hook(close)
            changed = losses(model, case, ids)
            hook.remove()
            if case["task"] == "fidelity":
                found.append(1 - (changed * base).sum(-1).mean())
            else:
                found.append(changed - base)

    return run, lambda: [torch.stack(found)]


def gradient(case):
    classes = case["classes"]
    model = load(case["folder"], "BertForSequenceClassification" if classes else "GPT2LMHeadModel", "sdpa")
    heads, layers = model.config.num_attention_heads, len(outputs_of(model))
    batches = []  # of similar lengths, at most 2,048 tokens with padding
    for text in sorted(range(len(case["ids"])), key=lambda text: len(case["ids"][text])):
        if not batches or not case["together"] or len(case["ids"][text]) * (len(batches[-1]) + 1) > 2048:
            batches.append([])
        batches[-1].append(text)
    found = []

    def losses(numbers, ids, padding):
        mask = None if padding.all() else padding.long()
        if classes:
            wanted = torch.tensor([classes[text] for text in numbers])
            return torch.nn.functional.cross_entropy(model(ids, attention_mask=mask).logits, wanted, reduction="none")
        hidden = model.transformer(input_ids=ids, attention_mask=mask).last_hidden_state[:, :-1]
        scored = padding[:, 1:]
        nll = torch.zeros(scored.shape)
        nll[scored] = torch.nn.functional.cross_entropy(model.lm_head(hidden[scored]), ids[:, 1:][scored], reduction="none")
        return nll.sum(1) / scored.sum(1)

    def gradients(numbers):
        texts = [case["ids"][text] for text in numbers]
        longest = max(map(len, texts))
        padding = torch.tensor([[n < len(text) for n in range(longest)] for text in texts])
        ids = torch.tensor([text + [0] * (longest - len(text)) for text in texts])
        gates = torch.ones(layers, len(texts), heads, requires_grad=True)
        hooks = []
        for layer, linear in enumerate(outputs_of(model)):

            def gate(_, x, layer=layer):
                b, n, c = x[0].shape
                return ((x[0].view(b, n, heads, -1) * gates[layer][:, None, :, None]).reshape(b, n, c),)

            hooks.append(linear.register_forward_pre_hook(gate))
        losses(numbers, ids, padding).sum().backward()
        for hook in hooks:
            hook.remove()
        return gates.grad.abs().sum(1)

    def run():
        found[:] = [sum(gradients(numbers) for numbers in batches) / len(case["ids"])]

    return run, lambda: found


def prepare(case):
    torch.set_num_threads(case["threads"])
    return {"look": look, "ablation": ablation, "gradient": gradient}[case["op"]](case)
