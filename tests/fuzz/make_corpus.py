"""Rewrites the seeds in corpus/: small files that reach every refusal, to be varied by the fuzzer.

    python make_corpus.py
"""
import gzip
import json
import pathlib
import re
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
    write("safetensors", "git_lfs", b"version https://git-lfs.example/spec/v1\n")


def make_training_data():
    packed = gzip.compress(b"one\ttwo\t0.5\n" * 40, mtime=0)
    write("training_data", "empty", b"")
    write("training_data", "lines", "Two dogs run.\n\nZwei Hunde laufen über die Wiese, 2 von 3.\r\nend")
    write("training_data", "byte_order_mark", "\ufeffa text\tlabel\n")
    write("training_data", "labels", "a b c\tpos\nd e\tneg\nf\tpos\n")
    write("training_data", "scores", "a b\tc d\t0.5\ne\tf\t-1\n")
    write("training_data", "bad_scores", "a b\tc d\t1.5\ne\tf\tnan\n")
    write("training_data", "special", "[MASK] [PAD][CLS] </s>\n[SEP]\n")
    write("training_data", "entities", "&amp;lt; &quot;<skipped>1-2 3.4, 5.\n&amp;lt; \u00a0\u2028x\x1cy -\n")
    write("training_data", "long", "aaaaaaaaaaaabbbbbbbbbbbbbbb" * 30 + "\n")
    write("training_data", "nul", b"a\0b\tx\n")
    write("training_data", "no_utf8", b"a\n\xff\tx\n")
    write("training_data", "utf16", "\ufeffab\n".encode("utf-16-le"))
    write("training_data", "gzip", packed)
    write("training_data", "gzip_members", packed + gzip.compress(b"", mtime=0) + packed)
    write("training_data", "gzip_cut", packed[:-9])
    write("training_data", "gzip_broken", packed[:20] + b"\xff" + packed[21:])
    write("training_data", "gzip_trailing", packed + b"\0\0")


def make_conllu():
    def sentence(*lines, text=None):
        """Lines "ID FORM UPOS HEAD DEPREL MISC", with "_" for what is left out."""
        rows = [] if text is None else [f"# text = {text}\n"]
        for line in lines:
            id, form, upos, head, relation, misc = (line.split(" ") + ["_"] * 6)[:6]
            rows.append("\t".join([id, form, "_", upos, "_", "_", head, relation, "_", misc]) + "\n")
        return "".join(rows) + "\n"

    dog = sentence("1 The DET 2 det", "2 dog NOUN 3 nsubj", "3 barks VERB 0 root SpaceAfter=No", "4 . PUNCT 3 punct")
    write("conllu", "tree", "# newdoc\n# sent_id = a-1\n" + dog)
    write("conllu", "gzip", gzip.compress(dog.encode(), mtime=0))
    write("conllu", "text", sentence("1 a X 0 root", "2 b X 1 dep", text="a \u00a0 b"))
    write("conllu", "token_of_words", sentence("1-2 don't", "1 do AUX 0 root", "2 n't PART 1 advmod", text="don't"))
    write("conllu", "token_of_others", sentence("1-3 du-x", "1 de X 0 root", "2 le X 1 dep", "3 x X 1 dep", text="du-x"))
    write("conllu", "token_twice", sentence("1-3 ab", "1 a X 0 root", "2 c X 1 dep", "3 b X 1 dep", "4-4 xb", "4 b X 1 x"))
    write("conllu", "empty_nodes", sentence("0.1 a", "1 a X 0 root", "1.1 b _ _ _ Entity=(e1)", "1.2 c"))
    write("conllu", "cycle", sentence("1 a X 2 x", "2 b X 1 x"))
    write("conllu", "two_roots", sentence("1 a X 0 root", "2 b X 0 root"))
    write("conllu", "head_out_of_range", sentence("1 a X 2 x"))
    write("conllu", "missing_column", "1\ta\t_\n")
    write("conllu", "not_counted", sentence("2 a X 0 root"))
    write("conllu", "not_utf8", b"1\t\xff\t_\tX\t_\t_\t0\troot\t_\t_\n")
    write("conllu", "text_differs", sentence("1 a X 0 root", text="b"))
    ann = sentence("1 Old ADJ 2 amod Entity=(e1-person", "2 Ann PROPN 0 root Entity=e1)", "3 Bo PROPN 2 x Entity=(e2-person-1)")
    she = sentence("1 she PRON 0 root Entity=(e1-person(e3)", "2 x X 1 x Entity=(e2-person[1/2])e1)")
    write("conllu", "entities", "# global.Entity = eid-etype-head\n" + ann + she)
    write("conllu", "entities_nested", sentence(*(f"{i} a X {i - 1} x Entity=(e1-x(e{i}" for i in range(1, 70))))
    write("conllu", "entities_do_not_end", sentence("1 a X 0 root Entity=(e1"))
    header = "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL\n"
    row = "a\tZoë, Ann saw her.\ther\t13\tZoë\t0\tFALSE\tAnn\t5\tTRUE\tu\n"
    write("conllu", "gap", header + row + row.replace("TRUE", "FALSE"))
    write("conllu", "gap_offset", header + row.replace("13", "99999999999999999999"))
    write("conllu", "gap_columns", header.replace("A-coref", "A") + row)


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


def make_tokenizer():
    """The golden files with a few tokens each, and without the large table of characters."""
    golden = pathlib.Path(__file__).parent.parent / "golden" / "text" / "tokenizers"
    for path in sorted(golden.glob("*/tokenizer.json")):
        document = json.loads(path.read_text("utf-8"))
        model = document["model"]
        if isinstance(model["vocab"], dict):
            model["vocab"] = {token: id for token, id in model["vocab"].items() if id < 40 or token in "abcde"}
        else:
            model["vocab"] = model["vocab"][:40]
        if "merges" in model:
            pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
            known = [a in model["vocab"] and b in model["vocab"] and a + b in model["vocab"] for a, b in pairs]
            model["merges"] = [merge for merge, kept in zip(model["merges"], known) if kept][:10]
        if "precompiled_charsmap" in str(document["normalizer"]):
            document["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": "BAAAAAAAAAA="}
        document["added_tokens"] = document["added_tokens"][:16]
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        write("tokenizer", path.parent.name, re.sub(r'"ids":\[\d+\]', '"ids":[3]', text))
    write("tokenizer", "template_id_out_of_range", text.replace('"ids":[', '"ids":[90'))

    def small(name, vocab={"a": 0, " ": 1}, **parts):
        model = {"type": "WordLevel", "unk_token": "a", "vocab": vocab}
        if isinstance(vocab, list):
            model = {"type": "Unigram", "unk_id": 0, "vocab": vocab}
        write("tokenizer", name, json.dumps({"model": model, **parts}, separators=(",", ":")))

    small("strip_nothing", decoder={"type": "Strip", "content": "", "start": 2**62, "stop": 0})
    token = dict.fromkeys(["single_word", "rstrip", "normalized", "special"], False) | {"lstrip": True}
    small("added_space", added_tokens=[token | {"content": " "}])
    small("added_long", added_tokens=[token | {"content": "a" * 5000}])
    small("piece_long", vocab=[["?", 0], ["a" * 5000, -1]])
    small("piece_repeated", vocab=[["?", 0], ["a", -1], ["a", -2]], added_tokens=[token | {"content": "<x>"}])
    replace = {"type": "Replace", "pattern": {"String": "e"}, "content": "e" * 16}
    small("replaced_often", normalizer={"type": "Sequence", "normalizers": [replace] * 9})
    put = {"Sequence": {"id": "A", "type_id": 0}}
    small("template_often", post_processor={"type": "TemplateProcessing", "single": [put] * 999, "pair": [], "special_tokens": {}})
    small("strip_often", decoder={"type": "Strip", "content": " ", "start": 2**62, "stop": 2**62})


def make_encoding():
    """A golden line for every golden tokenizer, and bytes that are no UTF-8."""
    lines = (pathlib.Path(__file__).parent.parent / "golden" / "text" / "sentences.txt").read_text("utf-8").split("\n")
    for i in range(40):
        write("encoding", f"line_{i}", bytes([i]) + lines[i * 4].split("\t")[-1].encode())
    write("encoding", "not_utf8", b"\4a\xff\xc3 \xe2\x82z\xf0\x9f\x98 \xed\xa0\x80\xc0\x80.")
    write("encoding", "nothing", b"")
    write("encoding", "nul", b"\7a\0b\0")
    write("encoding", "long_word", b"\2" + b"ab" * 2000)


if __name__ == "__main__":
    make_safetensors()
    make_conllu()
    make_json()
    make_config()
    make_tokenizer()
    make_encoding()
    make_training_data()
