"""Writes tokenizers/: a small tokenizer of every family, in the files and with the structure that the real ones have.

Run after make_lines.py, with the pinned packages of ../requirements.txt:  python make_tokenizers.py
They are trained on lines.txt. `families.py` has the structures.
"""
import base64
import collections
import io
import json
import pathlib
import shutil
import tempfile
import unicodedata

import sentencepiece
from tokenizers import Tokenizer, models, trainers
from sentencepiece import sentencepiece_model_pb2

import families
from text_lines import read_lines

HERE = pathlib.Path(__file__).parent
OUT = HERE / "tokenizers"
TEXTS = [
    text
    for category, text in read_lines(HERE / "lines.txt")
    if category not in ("broken", "control", "empty", "long", "special")
]


def common_texts(count):
    """Words of the `count` most frequent characters only, so that a small vocabulary has room for more than characters."""
    frequency = collections.Counter("".join(TEXTS))
    common = set(sorted(frequency, key=lambda c: (-frequency[c], c))[:count])
    return [" ".join(filter(common.issuperset, text.split(" "))) for text in TEXTS]


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def write_tokenizer(name, parts, model, added, config=None):
    """tokenizer.json with one part to a line; the parts are in the order of the real files."""
    everything = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, **parts, "model": model}
    rows = ",\n".join(f"{compact(key)}:{compact(value)}" for key, value in everything.items())
    write(OUT / name / "tokenizer.json", "{" + rows + "}\n")
    if config:
        write(OUT / name / "tokenizer_config.json", json.dumps(config, indent=2, ensure_ascii=False) + "\n")
    Tokenizer.from_file(str(OUT / name / "tokenizer.json"))  # it must be one


def trained(model, trainer, parts, texts):
    """The model's part of the file after training behind the normalizer and pre-tokenizer given."""
    document = json.loads(Tokenizer(model).to_str()) | {"normalizer": parts["normalizer"], "pre_tokenizer": parts["pre_tokenizer"]}
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.train_from_iterator(texts, trainer)
    return json.loads(tokenizer.to_str())["model"]


def wordpiece(parts, special, size=1400):
    """The vocabulary is of characters, then of beginnings and ends of words by how much text they cover.

    The trainer of the package breaks ties at random.
    """
    pipeline = Tokenizer.from_str(compact(json.loads(Tokenizer(models.WordPiece(unk_token="[UNK]")).to_str()) | parts))
    pieces = collections.Counter()
    for text in common_texts(450):
        for word, _ in pipeline.pre_tokenizer.pre_tokenize_str(pipeline.normalizer.normalize_str(text)):
            pieces.update({word: 0} | {piece: 10**6 for c in word for piece in (c, "##" + c)})
            for i in range(2, len(word)):
                pieces.update({word[:i]: i - 1, "##" + word[-i:]: i - 1, word: len(word) - 1})
    tokens = special + [piece for piece, _ in sorted(pieces.items(), key=lambda item: (-item[1], item[0]))]
    return {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
            "vocab": {token: id for id, token in enumerate(dict.fromkeys(tokens[:size]))}}


def byte_level(parts, special=(), size=900, **fields):
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=list(special), show_progress=False, initial_alphabet=families.BYTE_ALPHABET
    )
    return trained(models.BPE(), trainer, parts, TEXTS) | fields


def spaced_merges(model):
    """Merges as older files have them: "a b"."""
    return model | {"merges": [" ".join(pair) for pair in model["merges"]]}


def without_type(model):
    return {key: value for key, value in model.items() if key != "type"}


def write_wordpiece():
    uncased = wordpiece(families.bert(lowercase=True), families.BERT_SPECIAL)
    write_tokenizer("bert-uncased", families.bert(lowercase=True), uncased, families.added(uncased, families.BERT_SPECIAL),
                    {"do_lower_case": True, "tokenizer_class": "BertTokenizer", "model_max_length": 512})
    cased = wordpiece(families.bert(lowercase=False), families.BERT_SPECIAL)
    write_tokenizer("bert-cased", families.old_bert(lowercase=False, vocab=cased["vocab"]), without_type(cased),
                    families.added(cased, families.BERT_SPECIAL),
                    {"do_lower_case": False, "tokenizer_class": "BertTokenizer", "model_max_length": 512})
    for name, model, config in (("bert-vocab", uncased, None),
                                ("bert-cased-vocab", cased, {"do_lower_case": False, "tokenizer_class": "BertTokenizer"})):
        write(OUT / name / "vocab.txt", "".join(f"{token}\n" for token in sorted(model["vocab"], key=model["vocab"].get)))
        if config:
            write(OUT / name / "tokenizer_config.json", json.dumps(config, indent=2) + "\n")
    mpnet = wordpiece(families.bert(lowercase=True), ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"], 1000)
    write_tokenizer("mpnet", families.mpnet(mpnet["vocab"]), mpnet, families.added(mpnet, ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"]))
    flags = wordpiece(families.bert(lowercase=True), families.BERT_SPECIAL, 700)
    write_tokenizer("added-tokens", families.bert(lowercase=True), flags,
                    families.added(flags, families.BERT_SPECIAL) + families.flagged(len(flags["vocab"])))


def write_byte_level():
    gpt2 = spaced_merges(without_type(byte_level(families.gpt2(), ["<|endoftext|>"])))
    write_tokenizer("gpt2", families.gpt2(), gpt2, families.added(gpt2, ["<|endoftext|>"]),
                    {"tokenizer_class": "GPT2Tokenizer", "model_max_length": 1024})
    write_vocab_and_merges("gpt2-files", gpt2)
    roberta = spaced_merges(byte_level(families.gpt2(), families.ROBERTA_SPECIAL))
    write_tokenizer("roberta", families.roberta(), roberta, families.added(roberta, families.ROBERTA_SPECIAL),
                    {"tokenizer_class": "RobertaTokenizer", "model_max_length": 512})
    write_vocab_and_merges("roberta-files", roberta, {"mask_token": families.MASK, "tokenizer_class": "RobertaTokenizer"})
    llama3 = spaced_merges(byte_level(families.llama3(0), ignore_merges=True, byte_fallback=False))
    llama3["vocab"][families.UNMERGED] = len(llama3["vocab"])  # a word that no merges lead to
    size = len(llama3["vocab"])
    write_tokenizer("llama3", families.llama3(size), llama3, families.numbered(families.LLAMA3_SPECIAL, size),
                    {"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>", "tokenizer_class": "PreTrainedTokenizerFast"})
    qwen2 = byte_level(families.qwen2())
    write_tokenizer("qwen2", families.qwen2(), qwen2, families.qwen2_added(len(qwen2["vocab"])),
                    {"bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "tokenizer_class": "Qwen2Tokenizer"})
    neox = spaced_merges(byte_level(families.gpt_neox(), ["<|endoftext|>", "<|padding|>"]))
    write_tokenizer("gpt-neox", families.gpt_neox(), neox,
                    families.added(neox, ["<|endoftext|>", "<|padding|>"]) + families.runs_of_spaces(len(neox["vocab"])))
    smollm = byte_level(families.smollm(), ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    write_tokenizer("smollm", families.smollm(), smollm, families.added(smollm, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]))


def write_single_parts():
    vocab = {token: id for id, token in enumerate(sorted(families.BYTE_ALPHABET))}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "",
             "fuse_unk": False, "byte_fallback": False, "vocab": vocab, "merges": []}
    for name, (normalizer, pre_tokenizer) in families.single_parts().items():
        write_tokenizer(f"part-{name}", families.byte_level_of(normalizer, pre_tokenizer), model, [])


def write_vocab_and_merges(name, model, config=None):
    write(OUT / name / "vocab.json", compact(model["vocab"]))
    write(OUT / name / "merges.txt", "#version: 0.2\n" + "".join(f"{merge}\n" for merge in model["merges"]))
    if config:
        write(OUT / name / "tokenizer_config.json", json.dumps(config, indent=2) + "\n")


def sentencepiece_model(path, **options):
    """Trains a SentencePiece model into `path`; returns its protocol buffer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    stream = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for text in common_texts(700) for line in text.split("\n") if line]), model_writer=stream,
        num_threads=1, minloglevel=2, **options)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(stream.getvalue())
    proto.normalizer_spec.ClearField("normalization_rule_tsv")  # a temporary path
    path.write_bytes(proto.SerializeToString())
    return proto


def small_rules(folder):
    """A normalization table of a few blocks instead of all of NFKC, which is 240 KB."""
    blocks = [(0xA0, 0x250), (0x1EA0, 0x1EFA), (0x2000, 0x2070), (0x3099, 0x30FF), (0xAC00, 0xAC80), (0xFB00, 0xFB07), (0xFF01, 0xFFA0)]
    rows = {}
    for begin, end in blocks:
        for c in map(chr, range(begin, end)):
            for form in ("NFKC", "NFD"):
                before, after = (c, unicodedata.normalize(form, c)) if form == "NFKC" else (unicodedata.normalize(form, c), c)
                if before != after and unicodedata.normalize("NFKC", before) == unicodedata.normalize("NFKC", c):
                    rows[before] = unicodedata.normalize("NFKC", before)
    rows |= {c: " " for c in "\t\n\r\u00a0\u3000\u2028\ufeff"} | {c: "" for c in "\u0001\u007f\u200b\u00ad"}
    path = folder / "rules.tsv"
    hexes = lambda text: " ".join(f"{ord(c):X}" for c in text)
    path.write_text("".join(f"{hexes(before)}\t{hexes(after)}\n" for before, after in sorted(rows.items())))
    return str(path)


def write_byte_fallback():
    proto = sentencepiece_model(
        OUT / "llama-sentencepiece" / "tokenizer.model", model_type="bpe", vocab_size=1500, byte_fallback=True,
        character_coverage=0.995, normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=True,
        allow_whitespace_only_pieces=True, split_digits=True, unk_surface=" \u2047 ")
    vocab, merges = families.bpe_of(proto)
    model = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "fuse_unk": True, "byte_fallback": True, "vocab": vocab, "merges": [" ".join(pair) for pair in merges]}
    config = {"add_bos_token": True, "add_eos_token": False, "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    special = families.numbered(["<unk>", "<s>", "</s>"], 0)
    write_tokenizer("llama2", families.llama2(), model, special + families.llama2_added(len(vocab)),
                    config | {"tokenizer_class": "LlamaTokenizer"})
    write_tokenizer("mistral", families.mistral(), model | {"ignore_merges": False}, special,
                    config | {"tokenizer_class": "LlamaTokenizer"})
    write(OUT / "llama-sentencepiece" / "tokenizer_config.json", json.dumps(config | {"tokenizer_class": "LlamaTokenizer"}, indent=2) + "\n")


def write_unigram(rules):
    t5_ids = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    with tempfile.TemporaryDirectory() as folder:
        full = sentencepiece_model(pathlib.Path(folder) / "spiece.model", model_type="unigram", vocab_size=1500,
                                   character_coverage=0.995, normalization_rule_name="nmt_nfkc", **t5_ids)
    model, added = families.t5_model(full, extra=100)
    charsmap = base64.b64encode(full.normalizer_spec.precompiled_charsmap).decode()
    write_tokenizer("t5", families.t5(charsmap), model, added)
    small = sentencepiece_model(OUT / "t5-sentencepiece" / "spiece.model", model_type="unigram", vocab_size=1200,
                                character_coverage=0.995, normalization_rule_tsv=rules, **t5_ids)
    write(OUT / "t5-sentencepiece" / "tokenizer_config.json", json.dumps({"tokenizer_class": "T5Tokenizer", "extra_ids": 100}, indent=2) + "\n")
    model, added = families.t5_model(small, extra=10)
    charsmap = base64.b64encode(small.normalizer_spec.precompiled_charsmap).decode()
    write_tokenizer("t5-strip", families.t5_strip(charsmap), model | {"byte_fallback": False}, added)
    xlmr = sentencepiece_model(OUT / "xlmr-sentencepiece" / "sentencepiece.bpe.model", model_type="unigram", vocab_size=1200,
                               character_coverage=0.995, normalization_rule_tsv=rules)
    write(OUT / "xlmr-sentencepiece" / "tokenizer_config.json", json.dumps({"mask_token": families.MASK, "tokenizer_class": "XLMRobertaTokenizer"}, indent=2) + "\n")
    model = families.xlmr_model(xlmr)
    write_tokenizer("xlmr", families.xlmr(base64.b64encode(xlmr.normalizer_spec.precompiled_charsmap).decode()), model,
                    families.xlmr_added(len(model["vocab"])))


def write_marian(rules):
    folder = OUT / "marian"
    pieces = {}
    for side, size in (("source", 900), ("target", 700)):
        proto = sentencepiece_model(folder / f"{side}.spm", model_type="unigram", vocab_size=size, character_coverage=0.98,
                                    normalization_rule_tsv=rules)
        pieces |= {piece.piece: None for piece in proto.pieces[3:] if piece.score > -9.5}  # the vocabulary lacks some
    tokens = ["</s>", "<unk>", ">>deu<<", ">>fra<<", *sorted(pieces), "<pad>"]
    write(folder / "vocab.json", json.dumps({token: id for id, token in enumerate(tokens)}, ensure_ascii=False, indent=0))
    write(folder / "tokenizer_config.json", json.dumps({"source_lang": "eng", "target_lang": "deu", "tokenizer_class": "MarianTokenizer"}, indent=2) + "\n")


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    write_wordpiece()
    write_byte_level()
    write_single_parts()
    write_byte_fallback()
    with tempfile.TemporaryDirectory() as folder:
        rules = small_rules(pathlib.Path(folder))
        write_unigram(rules)
        write_marian(rules)


if __name__ == "__main__":
    main()
