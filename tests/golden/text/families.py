"""The structures of tokenizer.json that each family's published files have: normalizer, pre-tokenizer, post-processor,
decoder, added tokens."""
from tokenizers.pre_tokenizers import ByteLevel

BYTE_ALPHABET = ByteLevel.alphabet()
BERT_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
MASK = {"__type": "AddedToken", "content": "<mask>", "lstrip": True, "normalized": False, "rstrip": False, "single_word": False}
LLAMA3_SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
UNMERGED = "Ġunbelievably"
LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CL100K_PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K_PATTERN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTION}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEKKEN_PATTERN = O200K_PATTERN.replace(CONTRACTION, "").replace("{1,3}", "")
QWEN3_5_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2_PATTERN = LLAMA3_PATTERN.replace("{1,3}", "")


def parts(normalizer, pre_tokenizer, post_processor, decoder):
    return {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": post_processor, "decoder": decoder}


def sequence(key, *members):
    return {"type": "Sequence", key: list(members)}


def added_token(id, content, **flags):
    token = {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return token | flags


def added(model, contents):
    """Special tokens that the vocabulary has; a mask takes the spaces before it where files of the family say so."""
    return [added_token(model["vocab"][content], content, lstrip=content == "<mask>") for content in contents]


def numbered(contents, begin):
    return [added_token(begin + i, content) for i, content in enumerate(contents)]


def template(single, pair, ids):
    """TemplateProcessing from strings like "[CLS]:0 $A:0 [SEP]:0"."""

    def piece(text):
        name, type_id = text.rsplit(":", 1)
        if name in ("$A", "$B"):
            return {"Sequence": {"id": name[1], "type_id": int(type_id)}}
        return {"SpecialToken": {"id": name, "type_id": int(type_id)}}

    return {
        "type": "TemplateProcessing",
        "single": [piece(text) for text in single.split()],
        "pair": [piece(text) for text in pair.split()],
        "special_tokens": {name: {"id": name, "ids": [id], "tokens": [name]} for name, id in ids.items()},
    }


def byte_level_part(add_prefix_space, trim_offsets, **use_regex):
    return {"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": trim_offsets, **use_regex}


def bert(lowercase):
    return parts(
        {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": lowercase},
        {"type": "BertPreTokenizer"},
        template("[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", {"[CLS]": 2, "[SEP]": 3}),
        {"type": "WordPiece", "prefix": "##", "cleanup": True},
    )


def old_bert(lowercase, vocab):
    processor = {"type": "BertProcessing", "sep": ["[SEP]", vocab["[SEP]"]], "cls": ["[CLS]", vocab["[CLS]"]]}
    return bert(lowercase) | {"post_processor": processor}


def mpnet(vocab):
    """With truncation and padding in the file, as sentence-transformers' files have."""
    processor = {"type": "RobertaProcessing", "sep": ["</s>", vocab["</s>"]], "cls": ["<s>", vocab["<s>"]],
                 "trim_offsets": True, "add_prefix_space": False}
    return {
        "truncation": {"direction": "Right", "max_length": 16, "strategy": "LongestFirst", "stride": 0},
        "padding": {"strategy": {"Fixed": 16}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": vocab["<pad>"],
                    "pad_type_id": 0, "pad_token": "<pad>"},
        **(bert(lowercase=True) | {"post_processor": processor}),
    }


def flagged(begin):
    """Added tokens with every flag, some of them words that occur, some overlapping."""
    flags = [
        ("the", {"special": False, "normalized": True}),
        ("The River", {"special": False, "normalized": False}),
        ("cat", {"special": False, "normalized": True, "single_word": True}),
        ("mat", {"special": False, "normalized": False, "single_word": True}),
        ("old", {"special": False, "normalized": True, "lstrip": True}),
        ("house", {"special": False, "normalized": True, "rstrip": True}),
        ("and", {"special": False, "normalized": False, "lstrip": True, "rstrip": True}),
        ("<S>", {"special": True, "normalized": True}),
        ("<s>", {"special": True, "normalized": False, "lstrip": True, "rstrip": True}),
        ("é", {"special": False, "normalized": True}),
        ("ÖL", {"special": False, "normalized": False}),
        ("我爱", {"special": False, "normalized": True}),
        ("👍🏽", {"special": False, "normalized": False}),
        ("[MASK][MASK]", {"special": True, "normalized": False}),
        ("here", {"special": True, "normalized": True, "single_word": True, "lstrip": True, "rstrip": True}),
    ]
    return [added_token(begin + i, content, **one) for i, (content, one) in enumerate(flags)]


def gpt2():
    return parts(None, byte_level_part(False, True), byte_level_part(True, False), byte_level_part(True, True))


def roberta():
    processor = {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0], "trim_offsets": True, "add_prefix_space": False}
    return gpt2() | {"post_processor": processor}


def split(pattern, kind="Regex", behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def llama3(bos):
    return parts(
        None,
        sequence("pretokenizers", split(LLAMA3_PATTERN), byte_level_part(False, True, use_regex=False)),
        sequence(
            "processors",
            byte_level_part(True, False, use_regex=True),
            template("<|begin_of_text|>:0 $A:0", "<|begin_of_text|>:0 $A:0 <|begin_of_text|>:1 $B:1", {"<|begin_of_text|>": bos}),
        ),
        byte_level_part(True, True, use_regex=True),
    )


def qwen2():
    plain = byte_level_part(False, False, use_regex=False)
    return parts({"type": "NFC"}, sequence("pretokenizers", split(QWEN2_PATTERN), plain), plain, plain)


def qwen2_added(begin):
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    plain = ["<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_suffix|>"]
    return numbered(special, begin) + [token | {"special": False} for token in numbered(plain, begin + len(special))]


def gpt_neox():
    return gpt2() | {"normalizer": {"type": "NFC"}}


def runs_of_spaces(begin):
    return [added_token(begin + i, " " * (24 - i), normalized=True, special=False) for i in range(23)]


def smollm():
    pieces = sequence("pretokenizers", {"type": "Digits", "individual_digits": True}, byte_level_part(False, True, use_regex=True))
    return parts(None, pieces, None, byte_level_part(True, True, use_regex=True))


def llama2():
    return parts(
        sequence("normalizers", {"type": "Prepend", "prepend": "▁"},
                 {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}),
        None,
        template("<s>:0 $A:0", "<s>:0 $A:0 <s>:1 $B:1", {"<s>": 1}),
        sequence("decoders", {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
                 {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}),
    )


def llama2_added(begin):
    """As a user adds them: `add_special_tokens`, `add_tokens`."""
    return [added_token(begin, "<pad>"), added_token(begin + 1, "<mask>", normalized=True, special=False)]


def mistral():
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    return llama2() | {"normalizer": None, "pre_tokenizer": metaspace}


def bpe_of(proto):
    """Vocabulary and merges of a SentencePiece BPE model: every split of a piece into two others, by the piece's id."""
    vocab = {piece.piece: id for id, piece in enumerate(proto.pieces)}
    merges = []
    for token in vocab:
        pairs = [(token[:i], token[i:]) for i in range(1, len(token))]
        merges += sorted((pair for pair in pairs if pair[0] in vocab and pair[1] in vocab), key=lambda p: (vocab[p[0]], vocab[p[1]]))
    return vocab, merges


def scored(pieces):
    return [[piece.piece, piece.score] for piece in pieces]


def t5_model(proto, extra):
    """Unigram with sentinels behind the vocabulary, and its added tokens."""
    vocab = scored(proto.pieces) + [[f"<extra_id_{i}>", 0.0] for i in reversed(range(extra))]
    special = ["<pad>", "</s>", "<unk>"]
    sentinels = [added_token(len(proto.pieces) + i, name) for i, (name, _) in enumerate(vocab[len(proto.pieces) :])]
    return {"type": "Unigram", "unk_id": 2, "vocab": vocab}, numbered(special, 0) + sentinels


def t5(charsmap):
    metaspace = {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True}
    return parts({"type": "Precompiled", "precompiled_charsmap": charsmap}, metaspace,
                 template("$A:0 </s>:0", "$A:0 </s>:0 $B:0 </s>:0", {"</s>": 1}), metaspace)


def t5_strip(charsmap):
    """As later versions of transformers convert T5."""
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    normalizer = sequence("normalizers", {"type": "Precompiled", "precompiled_charsmap": charsmap},
                          {"type": "Strip", "strip_left": False, "strip_right": True},
                          {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"})
    return t5(charsmap) | {"normalizer": normalizer, "pre_tokenizer": metaspace, "decoder": metaspace}


def xlmr_model(proto):
    """fairseq's numbering: its own special tokens first, the mask last."""
    special = [["<s>", 0.0], ["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0]]
    return {"type": "Unigram", "unk_id": 3, "vocab": special + scored(proto.pieces[3:]) + [["<mask>", 0.0]]}


def xlmr_added(size):
    return numbered(["<s>", "<pad>", "</s>", "<unk>"], 0) + [added_token(size - 1, "<mask>", lstrip=True)]


def xlmr(charsmap):
    metaspace = {"type": "Metaspace", "replacement": "▁", "str_rep": "▁", "add_prefix_space": True}
    return parts({"type": "Precompiled", "precompiled_charsmap": charsmap},
                 sequence("pretokenizers", {"type": "WhitespaceSplit"}, metaspace),
                 template("<s>:0 $A:0 </s>:0", "<s>:0 $A:0 </s>:0 </s>:0 $B:0 </s>:0", {"<s>": 0, "</s>": 2}),
                 {"type": "Metaspace", "replacement": "▁", "str_rep": "▁", "add_prefix_space": True})


def single_parts():
    """Normalizers and pre-tokenizers that no family above has, each before plain bytes."""
    to_bytes = byte_level_part(False, True, use_regex=False)
    plain = lambda *pre_tokenizers: (None, sequence("pretokenizers", *pre_tokenizers, to_bytes))
    normalized = lambda *normalizers: (sequence("normalizers", *normalizers), byte_level_part(False, True, use_regex=True))
    return {
        "cl100k": plain(split(CL100K_PATTERN)),
        "o200k": plain(split(O200K_PATTERN)),
        "tekken": plain(split(TEKKEN_PATTERN)),
        "qwen3.5": plain(split(QWEN3_5_PATTERN)),
        "falcon": (None, sequence(
            "pretokenizers", {"type": "Punctuation", "behavior": "Contiguous"}, byte_level_part(False, True, use_regex=True),
            {"type": "Digits", "individual_digits": False}, split("[0-9][0-9][0-9]"))),
        "prefix-space": (None, byte_level_part(True, True, use_regex=True)),
        "whitespace": plain({"type": "Whitespace"}),
        "splits": plain(split(",", "String", "Removed"), split("a", "String", "MergedWithPrevious"),
                        split("e", "String", "MergedWithNext"), split(r"\s+", behavior="Contiguous"),
                        {"type": "CharDelimiterSplit", "delimiter": "-"}),
        "inverted": plain(split(r"\s+", behavior="Removed", invert=True)),
        "nfd": normalized({"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}),
        "nfkc": normalized({"type": "Nmt"}, {"type": "NFKC"}, {"type": "Replace", "pattern": {"Regex": r"\s{2,}"}, "content": " "},
                           {"type": "Strip", "strip_left": True, "strip_right": True}),
        "nfkd": normalized({"type": "NFKD"}),
        "accented-bert": ({"type": "BertNormalizer", "clean_text": False, "handle_chinese_chars": False, "strip_accents": False,
                           "lowercase": True}, byte_level_part(False, True, use_regex=True)),
    }


def byte_level_of(normalizer, pre_tokenizer):
    return parts(normalizer, pre_tokenizer, None, byte_level_part(False, True, use_regex=True))
