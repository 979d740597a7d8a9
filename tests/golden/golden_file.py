"""Writes golden files: a text index of cases, an empty line, then all tensors as little-endian float32.

    golden 1
    about <key> <value>
    case <name>
    number <name> <value>
    ints <name> <value> ...
    tensor <name> <extent> ...      (values follow after the empty line, in the order of these lines)
"""
import torch


class GoldenFile:
    def __init__(self):
        self.lines = ["golden 1", f"about torch {torch.__version__.split('+')[0]}"]
        self.values = []

    def case(self, name):
        self.lines.append(f"case {name}")

    def number(self, name, value):
        self.lines.append(f"number {name} {float(value)!r}")

    def ints(self, name, values):
        self.lines.append(" ".join(["ints", name, *(str(int(v)) for v in values)]))

    def tensor(self, name, values):
        values = values.detach().to(torch.float64).contiguous()
        self.lines.append(" ".join(["tensor", name, *(str(n) for n in values.shape)]))
        self.values.append(values.to(torch.float32).numpy().astype("<f4").tobytes())

    def write(self, path):
        with open(path, "wb") as file:
            file.write(("\n".join(self.lines) + "\n\n").encode())
            file.write(b"".join(self.values))
