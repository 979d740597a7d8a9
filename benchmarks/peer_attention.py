"""Attention as PyTorch does it: scaled_dot_product_attention, and the statistics of a head in plain PyTorch."""
import math

import torch
import torch.nn.functional as F

MAX_OFFSET = 8
MAP_BYTES = 2 << 20  # of attention weights held at a time, per thread: the fastest of 0.5 to 64 MiB where we tried


def noise(tensor, shape):
    """The same numbers as noise() in attention_problem.cc: uniform, variance 1, a hash of the element's index."""
    mask = 0xFFFFFFFF
    x = torch.arange(math.prod(shape), dtype=torch.int64) + tensor * 0x9E3779B9 & mask
    x = (x ^ x >> 16) * 0x7FEB352D & mask
    x = (x ^ x >> 15) * 0x846CA68B & mask
    x = x ^ x >> 16
    return (((x >> 8).float() * 2.0**-24 - 0.5) * 3.4641016).view(shape)


def key_sets(n):
    """[N, 2]: the first and last key (special tokens); one key in ten (punctuation)."""
    sets = torch.zeros(n, 2)
    sets[0, 0] = sets[n - 1, 0] = 1
    sets[5::10, 1] = 1
    return sets


def given_keys(n):
    return (torch.arange(n) * 7 + 3) % n


def forward(q, k, v, causal):
    out = [None]

    @torch.inference_mode()
    def run():
        out[0] = F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return run, lambda: out


def forward_backward(q, k, v, dout, causal):
    for t in (q, k, v):
        t.requires_grad_(True)
    results = [None]

    def run():
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        results[:] = [out, *torch.autograd.grad(out, (q, k, v), dout)]

    return run, lambda: results


class Statistics:
    """Output and every label-free statistic, the map being made in pieces that stay in the cache.

    What is linear in the weights comes from column sums, diagonals and one dot product with the distances; the
    entropy from ln Σ exp(s) - Σ p s; so that only the softmax, the largest key and the two products take long.
    """

    def __init__(self, q, k, v):
        self.b, self.h, self.n, self.d = q.shape
        self.q, self.k, self.v = (t.reshape(self.b * self.h, self.n, self.d) for t in (q, k, v))
        n = self.n
        floats = torch.get_num_threads() * MAP_BYTES // 4
        self.rows = max(1, min(n, floats // n))
        self.maps = max(1, floats // (n * n))
        i = torch.arange(n)
        self.positions = i
        self.distances = (i[:, None] - i[None, :]).abs().float().contiguous()
        self.sets = key_sets(n)
        self.given = given_keys(n)
        self.offsets = torch.arange(-MAX_OFFSET, MAX_OFFSET + 1)
        self.scores = torch.empty(self.maps * self.rows * n)
        self.weights = torch.empty(self.maps * self.rows * n)

    @torch.inference_mode()
    def run(self):
        bh, n = self.b * self.h, self.n
        q = self.q * self.d**-0.5
        self.out = torch.empty_like(self.q)
        self.largest = torch.empty(bh, n, dtype=torch.int64)
        self.given_weight = torch.empty(bh, n)
        lse, score, confidence = torch.empty(bh, n), torch.empty(bh, n), torch.empty(bh, n)
        columns = torch.zeros(bh, n)
        distance = torch.zeros(bh)
        diagonals = torch.zeros(5, bh)  # at i-2 … i+2

        for m0 in range(0, bh, self.maps):
            for r0 in range(0, n, self.rows):
                m, r = slice(m0, m0 + self.maps), slice(r0, r0 + self.rows)
                piece = q[m, r]
                shape = (piece.shape[0], piece.shape[1], n)
                s = self.scores[: math.prod(shape)].view(shape)
                p = self.weights[: math.prod(shape)].view(shape)
                torch.bmm(piece, self.k[m].transpose(1, 2), out=s)
                torch.softmax(s, -1, out=p)
                self.out[m, r] = torch.bmm(p, self.v[m])
                confidence[m, r] = top = p.amax(-1)
                lse[m, r] = s.amax(-1) - top.log()
                score[m, r] = torch.linalg.vecdot(p, s)
                self.largest[m, r] = p.argmax(-1)
                columns[m] += p.sum(1)
                distance[m] += p.view(shape[0], -1) @ self.distances[r].view(-1)
                for at, offset in enumerate(range(-2, 3)):
                    diagonals[at, m] += p.diagonal(r0 + offset, 1, 2).sum(-1)
                self.given_weight[m, r] = p.gather(2, self.given[r].view(1, -1, 1).expand(shape[0], -1, 1))[..., 0]

        hits = (self.largest - self.positions)[..., None] == self.offsets
        entropy = (lse - score).sum(1)
        self.sums = torch.cat(
            [
                torch.stack([entropy, entropy / math.log(n), confidence.sum(1), distance], 1),
                diagonals[1:4].T,
                columns[:, [0, n - 1]],
                columns @ self.sets,
                diagonals.sum(0)[:, None],
                self.given_weight.sum(1)[:, None],
                hits.sum(1),
            ],
            1,
        )

    def means(self):
        """[H, 30], in the order of statistics_means() in attention_problem.cc."""
        n = self.n
        counts = [n] * 4 + [n - 1, n, n - 1] + [n] * 6 + [n - abs(o) for o in self.offsets.tolist()]
        return self.sums.view(self.b, self.h, -1).sum(0) / (torch.tensor(counts) * self.b)


def fuse(tensors):
    """The same numbers as views into one [B, N, parts, H, D]: what a model has after a fused projection."""
    fused = torch.stack([t.transpose(1, 2) for t in tensors], 2)
    return [fused[:, :, i].transpose(1, 2) for i in range(len(tensors))]


def prepare(case):
    torch.set_num_threads(case["threads"])
    shape = case["B"], case["H"], case["N"], case["D"]
    q, k, v, dout = (noise(tensor, shape) for tensor in range(4))
    if case["fused"]:
        q, k, v = fuse([q, k, v])
        (dout,) = fuse([dout])
    if case["op"] == "forward":
        return forward(q, k, v, case["causal"])
    if case["op"] == "forward+backward":
        return forward_backward(q, k, v, dout, case["causal"])
    if case["op"] == "statistics":
        statistics = Statistics(q, k, v)
        return statistics.run, lambda: [statistics.out, statistics.means()]
    raise ValueError(f"unknown op {case['op']!r}")
