"""Rewrites the seeds in corpus/: small files that reach every refusal, to be varied by the fuzzer.

    python make_corpus.py
"""
import json
import pathlib
import struct

corpus = pathlib.Path(__file__).parent / "corpus"


def write(target, name, contents):
    folder = corpus / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(contents if isinstance(contents, bytes) else contents.encode())


def safetensors(name, header, data=b""):
    text = header if isinstance(header, str) else json.dumps(header, separators=(",", ":"))
    write("safetensors", name, struct.pack("<Q", len(text)) + text.encode() + data)


def tensor(shape, begin, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def make_safetensors():
    eight = struct.pack("<2f", 1.5, -2)
    safetensors("one", {"w": tensor([2], 0, 8)}, eight)
    safetensors("two", {"a": tensor([1], 0, 4), "b": tensor([2, 1], 4, 8, "F16")}, eight)
    safetensors("metadata", {"__metadata__": {"format": "pt"}, "w": tensor([], 0, 8, "F64")}, eight)
    safetensors("not_finite", {"w": tensor([2], 0, 8)}, struct.pack("<2f", 1, float("inf")))
    safetensors("unaligned", {"b": tensor([1], 0, 1, "BOOL"), "w": tensor([1], 1, 5)}, b"\1" + eight[:4])
    safetensors("empty_tensor", {"w": tensor([3, 0], 0, 0, "BF16")})
    safetensors("padded", "{}      ")
    safetensors("overlap", {"a": tensor([1], 0, 4), "b": tensor([1], 2, 6)}, eight)
    safetensors("hole", {"a": tensor([1], 4, 8)}, eight)
    safetensors("backwards", {"a": tensor([1], 8, 4)}, eight)
    safetensors("overflow", {"a": tensor([1 << 32, 1 << 32], 0, 0)})
    safetensors("many_dimensions", {"a": tensor([1] * 9, 0, 4)}, eight[:4])
    safetensors("truncated", {"w": tensor([4], 0, 16)}, eight)
    safetensors("trailing", {"w": tensor([1], 0, 4)}, eight)
    safetensors("unknown_dtype", {"w": tensor([8], 0, 8, "F8_E4M3")}, eight)
    safetensors("negative", {"w": tensor([-1], 0, 8)}, eight)
    safetensors("repeated", '{"w":1,"w":2}')
    safetensors("metadata_number", '{"__metadata__":{"step":1}}')
    safetensors("array", "[]")
    write("safetensors", "nothing", b"")
    write("safetensors", "huge_header", b"\xff" * 8 + b"{}")
    write("safetensors", "zip", b"PK\3\4" + bytes(30))
    write("safetensors", "pickle", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.")
    write("safetensors", "git_lfs", b"version https://git-lfs.github.com/spec/v1\n")


def make_json():
    write("json", "values", '{"a":[1,-2,3.5e-7,true,false,null],"b":{"c":"\\u00e9\\n\U0001f600"}} ')
    write("json", "repeated", '{"a":{"b":1,"\\u0062":2}}')
    write("json", "deep", "[" * 65)
    write("json", "as_deep_as_may_be", "[" * 64 + "]" * 64)
    write("json", "large", "[18446744073709551615,18446744073709551616,-9223372036854775809,1e308]")
    write("json", "overflow", "1e309")
    write("json", "not_utf8", b'"\xff"')
    write("json", "surrogate", '"\\ud800"')
    write("json", "trailing", "{}{}")
    write("json", "byte_order_mark", b"\xef\xbb\xbf{}")


def make_config():
    golden = pathlib.Path(__file__).parent.parent / "golden" / "models"
    llama = json.loads((golden / "llama" / "config.json").read_text())
    write("config", "many_layers", json.dumps({**llama, "num_hidden_layers": 2**31 - 1}))
    wide = {"hidden_size": 2**30, "num_attention_heads": 2**30, "num_key_value_heads": 2**30, "head_dim": 2}
    write("config", "many_heads", json.dumps({**llama, **wide}))


if __name__ == "__main__":
    make_safetensors()
    make_json()
    make_config()
