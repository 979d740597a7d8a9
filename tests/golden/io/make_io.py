"""Files as their formats' own writers make them: every dtype in a safetensors file, and an array of NumPy.

Run with the packages of ../requirements.txt:  python make_io.py
It rewrites all_types.safetensors and array.npy beside it.
"""
import pathlib

import numpy
import torch
from safetensors.torch import save_file

here = pathlib.Path(__file__).parent


def main():
    counting = torch.arange(6).reshape(2, 3)
    tensors = {
        "float64": (counting.double() + 0.1),
        "float32": (counting.float() + 0.1),
        "float16": (counting / 3).half(),
        "bfloat16": (counting / 3).bfloat16(),
        "int64": counting - (1 << 40),
        "int32": (counting - 70000).int(),
        "int16": (counting - 300).short(),
        "int8": (counting - 3).char(),
        "uint8": (counting + 200).byte(),
        "bool": counting % 2 == 0,
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 4, dtype=torch.float16),
        'a "name" with ü, \t and \x1f': torch.ones(1, 1, 1),
    }
    save_file(tensors, here / "all_types.safetensors", metadata={"format": 'pt "ü"'})
    numpy.save(here / "array.npy", (numpy.arange(24, dtype="<f4") / 7).reshape(2, 3, 4))


if __name__ == "__main__":
    main()
