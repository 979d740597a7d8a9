"""Golden values of attention from PyTorch, computed in float64 from inputs that float32 holds exactly.

Run with the pinned PyTorch of requirements.txt:  python make_attention.py
It rewrites attention.golden and statistics.golden beside it; both record the version of PyTorch.
"""
import math
import pathlib

import torch
import torch.nn.functional as F

from golden_file import GoldenFile

HERE = pathlib.Path(__file__).parent
UNLIMITED = -1
SCOPES = {"head": 0, "sequence": 1, "row": 2}


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float32).to(torch.float64)


def t5_bucket(distance, buckets, max_distance, bidirectional):
    """transformers' T5Attention._relative_position_bucket, in float32 as there; distance = key - query."""
    result = torch.zeros_like(distance)
    if bidirectional:
        buckets //= 2
        result += (distance > 0).long() * buckets
        distance = distance.abs()
    else:
        distance = -torch.min(distance, torch.zeros_like(distance))
    exact = buckets // 2
    large = exact + (
        torch.log(distance.float() / exact) / math.log(max_distance / exact) * (buckets - exact)
    ).long()
    large = torch.min(large, torch.full_like(large, buckets - 1))
    return result + torch.where(distance < exact, distance, large)


class Problem:
    """One attention problem; sequences are (query rows, keys), or (rows, keys, real rows, real keys)."""

    def __init__(self, name, sequences, heads=2, width=8, value_width=None, kv_heads=None, kv_head=None, causal=False,
                 left=UNLIMITED, right=UNLIMITED, scale=None, softcap=0.0, slopes=None, t5=None, gates=None,
                 shift=None):
        self.name, self.heads, self.width = name, heads, width
        self.sequences = [s if len(s) == 4 else (*s, *s) for s in sequences]
        self.kv_heads = kv_heads or heads
        self.kv_head = kv_head or [h * self.kv_heads // heads for h in range(heads)]
        self.explicit_map = kv_head is not None
        self.causal, self.left, self.right = causal, left, right
        self.scale, self.softcap, self.slopes, self.t5, self.scope = scale, softcap, slopes, t5, gates
        self.shift = shift
        value_width = value_width or width
        self.rows = sum(s[0] for s in self.sequences)
        self.keys = sum(s[1] for s in self.sequences)
        self.q = normal(self.rows, heads, width).requires_grad_()
        self.k = normal(self.keys, self.kv_heads, width).requires_grad_()
        self.v = normal(self.keys, self.kv_heads, value_width).requires_grad_()
        self.dout = normal(self.rows, heads, value_width)
        self.table = normal(heads, t5[0]).requires_grad_() if t5 else None
        count = {None: 0, "head": 1, "sequence": len(sequences), "row": self.rows}[gates]
        self.gates = normal(count, heads).requires_grad_() if gates else None

    def positions(self, b):
        rows, keys = self.sequences[b][:2]
        start = keys - rows if self.shift is None else self.shift[b]
        return torch.arange(rows) + start

    def bias_and_mask(self, b):
        """Additive bias [H, N, M] and what each row sees [N, M] in sequence b."""
        rows, keys, real_rows, real_keys = self.sequences[b]
        position, key = self.positions(b)[:, None], torch.arange(keys)[None, :]
        distance = key - position
        visible = (key < real_keys).expand(rows, keys)
        if self.causal:
            visible = visible & (distance <= 0)
        if self.left != UNLIMITED:
            visible = visible & (distance >= -self.left)
        if self.right != UNLIMITED:
            visible = visible & (distance <= self.right)
        bias = torch.zeros(self.heads, rows, keys, dtype=torch.float64)
        if self.slopes is not None:
            bias = bias - torch.tensor(self.slopes, dtype=torch.float64)[:, None, None] * distance.abs()
        if self.t5:
            bias = bias + self.table[:, t5_bucket(distance, *self.t5)]
        return bias, visible

    def sequence_output(self, b, row, key):
        """[H, N, Dv] of sequence b by PyTorch's own attention where it has the feature, composed where not."""
        rows, keys, real_rows, _ = self.sequences[b]
        q = self.q[row:row + rows].transpose(0, 1)
        k = self.k[key:key + keys].transpose(0, 1)[self.kv_head]
        v = self.v[key:key + keys].transpose(0, 1)[self.kv_head]
        bias, visible = self.bias_and_mask(b)
        scale = self.scale or 1 / math.sqrt(self.width)
        scores = scale * q @ k.transpose(1, 2)
        if self.softcap:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        lse = (scores + bias).masked_fill(~visible, -math.inf).logsumexp(-1)
        lse[:, real_rows:] = -math.inf
        if self.softcap:
            weights = (scores + bias).masked_fill(~visible, -math.inf).softmax(-1)
            out = weights @ v
        elif self.slopes is not None or self.t5:
            out = F.scaled_dot_product_attention(q, k, v, bias.masked_fill(~visible, -math.inf), scale=scale)
        elif self.causal and rows == keys and self.left == UNLIMITED and bool(visible[0, 0]):
            gqa = {} if self.explicit_map or self.kv_heads == self.heads else {"enable_gqa": True}
            if gqa:
                k, v = (x[key:key + keys].transpose(0, 1) for x in (self.k, self.v))
            add = [x.unsqueeze(0) for x in (q, k, v)]
            out = F.scaled_dot_product_attention(*add, is_causal=True, scale=scale, **gqa).squeeze(0)
        elif bool(visible.all()):
            out = F.scaled_dot_product_attention(q, k, v, scale=scale)
        else:
            out = F.scaled_dot_product_attention(q, k, v, visible.expand(self.heads, rows, keys), scale=scale)
        real = (torch.arange(rows) < real_rows)[None, :, None]
        return torch.where(real, out, torch.zeros_like(out)), lse

    def solve(self):
        outs, lses, row, key = [], [], 0, 0
        for b, (rows, keys, _, _) in enumerate(self.sequences):
            out, lse = self.sequence_output(b, row, key)
            out = out.transpose(0, 1)
            if self.scope == "row":
                out = out * self.gates[row:row + rows, :, None]
            elif self.scope:
                out = out * self.gates[0 if self.scope == "head" else b][None, :, None]
            outs.append(out)
            lses.append(lse.transpose(0, 1))
            row, key = row + rows, key + keys
        out = torch.cat(outs)
        out.backward(self.dout)
        return out, torch.cat(lses)

    def write(self, file):
        out, lse = self.solve()
        file.case(self.name)
        rows, keys, real_rows, real_keys = zip(*self.sequences)
        file.ints("q_offsets", torch.tensor([0, *rows]).cumsum(0))
        file.ints("k_offsets", torch.tensor([0, *keys]).cumsum(0))
        if real_rows != rows or real_keys != keys:
            file.ints("q_lengths", real_rows)
            file.ints("k_lengths", real_keys)
        if self.explicit_map:
            file.ints("kv_head", self.kv_head)
        if self.shift is not None:
            file.ints("positions", torch.cat([self.positions(b) for b in range(len(self.sequences))]))
        file.ints("mask", [self.causal, self.left, self.right])
        if self.scale:
            file.number("scale", self.scale)
        file.number("softcap", self.softcap)
        for name in ("q", "k", "v"):
            file.tensor(name, getattr(self, name))
            file.tensor("d" + name, getattr(self, name).grad)
        file.tensor("dout", self.dout)
        file.tensor("out", out)
        file.tensor("lse", lse)
        if self.slopes is not None:
            file.tensor("slopes", torch.tensor(self.slopes, dtype=torch.float64))
        if self.t5:
            file.ints("t5", self.t5)
            reach = self.t5[1]
            file.ints("buckets", t5_bucket(torch.arange(-reach, reach + 1), *self.t5))
            file.tensor("table", self.table)
            file.tensor("dtable", self.table.grad)
        if self.scope:
            file.ints("gate_scope", [SCOPES[self.scope]])
            file.tensor("gates", self.gates)
            file.tensor("dgates", self.gates.grad)


def problems():
    for width in (1, 3, 8, 16, 20, 32, 64, 80, 128):
        heads = 2 if width > 32 else 3
        yield Problem(f"plain_d{width}", [(7, 7), (4, 4)], heads, width)
        yield Problem(f"causal_d{width}", [(6, 6), (1, 1)], heads, width, causal=True)
    yield Problem("value_width", [(6, 9)], 3, 16, value_width=5)
    yield Problem("scale", [(8, 8)], 2, 12, scale=0.75)
    yield Problem("cross_lengths_differ", [(5, 9), (9, 4), (1, 3)], 3, 8)
    yield Problem("causal_at_end", [(4, 11), (1, 7), (9, 9)], 3, 8, causal=True)
    yield Problem("more_rows_than_keys", [(7, 4), (3, 3)], 2, 8, causal=True)
    yield Problem("positions", [(4, 12), (3, 8)], 2, 8, causal=True, shift=[3, 0])
    yield Problem("padding", [(9, 9, 5, 5), (9, 9, 9, 9), (9, 9, 1, 1)], 3, 8)
    yield Problem("padding_cross", [(6, 10, 4, 7), (6, 10, 6, 10)], 2, 20)
    yield Problem("padding_causal", [(8, 8, 6, 6), (8, 8, 8, 8)], 2, 8, causal=True)
    yield Problem("window_both", [(30, 30)], 2, 8, left=4, right=3)
    yield Problem("window_causal", [(40, 40)], 2, 8, causal=True, left=7)
    yield Problem("window_long", [(3, 300)], 1, 4, causal=True, left=40)
    yield Problem("blocks", [(3, 300), (2, 530)], 1, 4)
    yield Problem("gqa", [(10, 10)], 6, 16, kv_heads=2, causal=True)
    yield Problem("mqa", [(7, 7), (5, 5)], 4, 8, kv_heads=1)
    yield Problem("gqa_uneven", [(9, 9), (3, 3)], 6, 8, kv_heads=3, kv_head=[0, 0, 0, 1, 2, 2], causal=True)
    yield Problem("alibi", [(12, 12), (5, 20)], 4, 8, slopes=[0.5, 0.25, 0.125, 0.0625], causal=True)
    yield Problem("alibi_both_ways", [(15, 15)], 2, 8, slopes=[0.5, 0.0625])
    yield Problem("t5_encoder", [(24, 24), (7, 7)], 3, 8, scale=1.0, t5=(32, 128, True))
    yield Problem("t5_decoder", [(20, 20)], 3, 8, scale=1.0, t5=(32, 128, False), causal=True)
    yield Problem("t5_small", [(20, 20, 17, 17)], 2, 8, t5=(8, 16, True))
    yield Problem("t5_far", [(2, 400)], 1, 4, scale=0.5, t5=(32, 128, False), causal=True)
    yield Problem("softcap", [(10, 10)], 2, 16, softcap=2.0, causal=True)
    yield Problem("softcap_alibi_gqa", [(9, 9)], 4, 8, kv_heads=2, softcap=1.5, slopes=[0.5, 0.25, 0.125, 0.0625])
    for scope in SCOPES:
        yield Problem(f"gates_{scope}", [(6, 6), (5, 5)], 4, 8, kv_heads=2, gates=scope)
    yield Problem("gates_t5_padding", [(9, 9, 6, 6), (9, 9, 9, 9)], 3, 8, t5=(8, 20, True), gates="sequence")


class Means:
    """A statistic per head: values over the rows that count."""

    def __init__(self, heads):
        self.values = {}
        self.heads = heads

    def add(self, name, values, counts=None):
        """values [H, rows]; counts [rows] or [H, rows] bool."""
        counts = torch.ones_like(values, dtype=torch.bool) if counts is None else counts.expand(values.shape)
        old = self.values.get(name, (torch.zeros(self.heads, dtype=torch.float64), torch.zeros(self.heads).long()))
        self.values[name] = (old[0] + (values * counts).sum(1), old[1] + counts.sum(1))

    def write(self, file):
        for name, (total, n) in self.values.items():
            file.tensor(name, total / n.clamp(min=1))
            file.ints(name + "_n", n)


def gather_key(weights, visible, key):
    """p[key of the row] [H, N], and whether that key exists and is seen [N]."""
    inside = (key >= 0) & (key < weights.shape[2])
    safe = key.clamp(0, weights.shape[2] - 1)
    seen = inside & visible.gather(1, safe[:, None])[:, 0]
    return weights.gather(2, safe[None, :, None].expand(weights.shape[0], -1, 1))[:, :, 0], seen


def sequence_statistics(means, weights, visible, causal, cross, sets):
    """weights [H, N, M] and visible [N, M] of real rows and keys, by the definitions of the measures."""
    heads, rows, keys = weights.shape
    entropy = -torch.special.xlogy(weights, weights).sum(-1)
    seen = visible.sum(-1)
    means.add("entropy", entropy)
    means.add("entropy_ratio", entropy / seen.clamp(min=2).log(), seen > 1)
    means.add("confidence", weights.max(-1).values)
    means.add("mass_first", weights[:, :, 0])
    means.add("mass_last", weights[:, :, -1], visible[:, -1] if causal else None)
    for g, members in enumerate(sets):
        means.add(f"mass_key_set_{g}", (weights * members).sum(-1))
    i, j = torch.arange(rows), torch.arange(keys)
    if cross:
        near = (j[None, :].double() / keys - i[:, None].double() / rows).abs() <= 0.1
        means.add("mass_diagonal", (weights * near).sum(-1))
        return
    far = (i[:, None] - j[None, :]).abs()
    means.add("distance", (weights * far).sum(-1))
    means.add("mass_window", (weights * (far <= 2)).sum(-1))
    for name, offset in (("mass_previous", -1), ("mass_self", 0), ("mass_next", 1)):
        means.add(name, *gather_key(weights, visible, i + offset))
    largest = weights.argmax(-1)
    for offset in range(-8, 9):
        _, counts = gather_key(weights, visible, i + offset)
        means.add(f"offset_share_{offset + 8}", (largest == i + offset).double(), counts)


def write_statistics(file, name, sequences, causal=False, cross=False, heads=3, width=8):
    """sequences are (rows, keys) of real tokens, stored without padding."""
    file.case(name)
    q, k = normal(sum(s[0] for s in sequences), heads, width), normal(sum(s[1] for s in sequences), heads, width)
    sets = (torch.rand(2, k.shape[0]) < 0.3).double()
    means, maps, row, key = Means(heads), [], 0, 0
    for rows, keys in sequences:
        scores = q[row:row + rows].transpose(0, 1) @ k[key:key + keys].transpose(0, 1).transpose(1, 2)
        visible = torch.ones(rows, keys, dtype=torch.bool)
        visible = visible.tril() if causal else visible
        weights = (scores / math.sqrt(width)).masked_fill(~visible, -math.inf).softmax(-1)
        sequence_statistics(means, weights, visible, causal, cross, sets[:, key:key + keys])
        maps.append(weights.transpose(0, 1).reshape(-1))
        row, key = row + rows, key + keys
    file.ints("q_offsets", torch.tensor([0, *(s[0] for s in sequences)]).cumsum(0))
    file.ints("k_offsets", torch.tensor([0, *(s[1] for s in sequences)]).cumsum(0))
    file.ints("mask", [causal, UNLIMITED, UNLIMITED])
    file.ints("cross", [cross])
    file.ints("key_sets", sets.reshape(-1))
    file.tensor("q", q)
    file.tensor("k", k)
    file.tensor("maps", torch.cat(maps))
    means.write(file)


def write_buckets(file, buckets, max_distance, bidirectional):
    distance = torch.arange(-200, 201)
    file.case(f"t5_buckets_{buckets}_{max_distance}_{'both' if bidirectional else 'past'}")
    file.ints("t5", [buckets, max_distance, bidirectional])
    file.ints("distance", distance)
    file.ints("bucket", t5_bucket(distance, buckets, max_distance, bidirectional))


def main():
    torch.manual_seed(20240607)
    torch.set_num_threads(1)
    attention = GoldenFile()
    for problem in problems():
        problem.write(attention)
    attention.write(HERE / "attention.golden")

    statistics = GoldenFile()
    write_statistics(statistics, "encoder", [(21, 21), (13, 13)])
    write_statistics(statistics, "causal", [(17, 17), (24, 24)], causal=True)
    write_statistics(statistics, "cross", [(11, 16), (23, 9)], cross=True)
    for shape in ((32, 128), (16, 64), (8, 16)):
        for bidirectional in (True, False):
            write_buckets(statistics, *shape, bidirectional)
    statistics.write(HERE / "statistics.golden")


if __name__ == "__main__":
    main()
