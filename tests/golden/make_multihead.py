"""Golden values of torch.nn.MultiheadAttention: weights, inputs, outputs and every gradient, in float64.

Run with the pinned PyTorch of requirements.txt:  python make_multihead.py
It rewrites multihead.golden beside it, which records the version of PyTorch.
"""
import pathlib

import torch

from golden_file import GoldenFile


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float32).to(torch.float64)


def write_case(file, name, width, heads, bias=True, causal=False, lengths=None, keys=None, batch=2, rows=5):
    layer = torch.nn.MultiheadAttention(width, heads, bias=bias, batch_first=True, dtype=torch.float64)
    for parameter in layer.parameters():
        parameter.data = (normal(*parameter.shape) * width**-0.5).float().double()
    x = normal(batch, rows, width).requires_grad_()
    memory = normal(batch, keys, width).requires_grad_() if keys else x
    mask = torch.ones(rows, rows, dtype=torch.bool).triu(1) if causal else None
    padding = None
    if lengths:
        padding = torch.arange(memory.shape[1])[None, :] >= torch.tensor(lengths)[:, None]
    out, weights = layer(x, memory, memory, attn_mask=mask, key_padding_mask=padding, average_attn_weights=False)
    dout = normal(batch, rows, width)
    out.backward(dout)

    file.case(name)
    file.ints("heads", [heads])
    file.ints("causal", [causal])
    if lengths:
        file.ints("k_lengths", lengths)
    file.tensor("x", x)
    file.tensor("dx", x.grad)
    if keys:
        file.tensor("memory", memory)
        file.tensor("dmemory", memory.grad)
    file.tensor("dout", dout)
    file.tensor("out", out)
    file.tensor("weights", weights)
    for parameter, values in layer.named_parameters():
        file.tensor(parameter, values)
        file.tensor("d" + parameter, values.grad)


def main():
    torch.manual_seed(20240608)
    torch.set_num_threads(1)
    file = GoldenFile()
    write_case(file, "self_24_4", 24, 4)
    write_case(file, "self_24_4_no_bias", 24, 4, bias=False)
    write_case(file, "self_32_8", 32, 8)
    write_case(file, "self_32_8_causal", 32, 8, causal=True)
    write_case(file, "self_24_4_padding", 24, 4, lengths=[5, 3])
    write_case(file, "self_24_4_causal_no_bias", 24, 4, bias=False, causal=True)
    write_case(file, "cross_24_4", 24, 4, keys=7)
    write_case(file, "cross_32_8_padding", 32, 8, keys=9, lengths=[4, 9])
    write_case(file, "self_16_1", 16, 1)
    write_case(file, "self_8_8", 8, 8)
    file.write(pathlib.Path(__file__).parent / "multihead.golden")


if __name__ == "__main__":
    main()
