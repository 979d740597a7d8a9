"""The tokenizers of tokenizers/ as the packages that define them see them: tokenizers, transformers, sentencepiece."""
import dataclasses
import functools
import pathlib

import tokenizers
import transformers

TOKENIZERS = pathlib.Path(__file__).parent / "tokenizers"


@dataclasses.dataclass
class Encoded:
    ids: list
    types: list
    words: list  # None for template tokens
    mask: list
    offsets: list  # (begin, end) in code points
    sequences: list  # 0, 1, or None for template tokens


class FastPeer:
    """A tokenizer of the tokenizers package."""

    pairs = swept = True
    compared = "all"

    def __init__(self, tokenizer, stride=1):
        self.tokenizer = tokenizer
        self.stride = stride  # every so many lines are compared
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = False
        self.size = max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1
        self.pad = next((name for name in ("[PAD]", "<pad>") if tokenizer.token_to_id(name) is not None), None)

    def encode(self, text, pair=None, special=True, truncate=None, pad=None):
        if truncate is not None:
            self.tokenizer.enable_truncation(truncate)
        if pad is not None:
            self.tokenizer.enable_padding(length=pad, pad_token=self.pad, pad_id=self.tokenizer.token_to_id(self.pad))
        e = self.tokenizer.encode(text, pair, add_special_tokens=special)
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        return Encoded(e.ids, e.type_ids, e.word_ids, e.special_tokens_mask, e.offsets, e.sequence_ids)

    def decode(self, ids, skip):
        return self.tokenizer.decode(ids, skip_special_tokens=skip)

    def ambiguous(self, text):
        return False


class MarianPeer:
    """transformers' Marian tokenizer, which is in Python; offsets are SentencePiece's. It has no words and no types."""

    pairs = swept = False
    stride = 1
    pad = None

    def __init__(self, folder, target=False):
        self.tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
        self.size = len(self.tokenizer)
        self.compared = "ids offsets of the target" if target else "ids offsets"
        self.argument = "text_target" if target else "text"
        self.sentencepiece = self.tokenizer.spm_target if target else self.tokenizer.spm_source

    def pieces(self, text):
        """(piece, begin, end): the text is cut at special tokens, and SentencePiece sees what is between."""
        at = 0
        for part in self.tokenizer.tokens_trie.split(text):
            if part in self.tokenizer._added_tokens_encoder:
                yield part, at, at + len(part)
            else:
                code, rest = self.tokenizer.remove_language_code(part)
                if code:
                    yield code[0], at, at + len(code[0])
                base, rest_bytes = at + len(part) - len(rest), rest.encode()
                place = lambda byte: base + len(rest_bytes[:byte].decode("utf-8", "ignore"))
                for piece in self.sentencepiece.encode(rest, return_type="proto").pieces:
                    yield piece.piece, place(piece.begin), place(piece.end)
            at += len(part)

    def ambiguous(self, text):
        """Two ways to put the text together are as probable: SentencePiece's versions round sums in another order."""
        for part in self.tokenizer.tokens_trie.split(text):
            best = self.sentencepiece.nbest_encode(part, nbest_size=2, return_type="proto").nbests if part.strip() else []
            if len(best) == 2 and best[0].score - best[1].score < 1e-4 * abs(best[0].score):
                return True
        return False

    def encode(self, text, pair=None, special=True, truncate=None, pad=None):
        ids = self.tokenizer(**{self.argument: text}, add_special_tokens=special)["input_ids"]
        found = list(self.pieces(text))
        offsets = [(begin, end) for _, begin, end in found] + [(0, 0)] * special
        assert [self.tokenizer.convert_tokens_to_ids(piece) for piece, _, _ in found] == ids[: len(ids) - special], text
        n = len(ids)
        mask = [0] * (n - special) + [1] * special
        return Encoded(ids, [0] * n, [None] * n, mask, offsets, [None if m else 0 for m in mask])

    def decode(self, ids, skip):
        return self.tokenizer.decode(ids, skip_special_tokens=skip)


def from_json(name, stride=1):
    return FastPeer(tokenizers.Tokenizer.from_file(str(TOKENIZERS / name / "tokenizer.json")), stride)


def from_transformers(kind, name):
    return FastPeer(getattr(transformers, kind).from_pretrained(TOKENIZERS / name).backend_tokenizer)


JSON = ["added-tokens", "bert-cased", "bert-uncased", "gpt-neox", "gpt2", "llama2", "llama3", "mistral", "mpnet", "qwen2",
        "roberta", "smollm", "t5", "t5-strip", "xlmr"]
PEERS = {name: functools.partial(from_json, name) for name in JSON}
PEERS |= {path.name: functools.partial(from_json, path.name, stride=4) for path in sorted(TOKENIZERS.glob("part-*"))}
PEERS["t5-sentencepiece"] = functools.partial(from_transformers, "T5Tokenizer", "t5-sentencepiece")
PEERS["marian"] = functools.partial(MarianPeer, TOKENIZERS / "marian")
PEERS["marian-target"] = functools.partial(MarianPeer, TOKENIZERS / "marian", target=True)
SAME = {  # folders with other files, which transformers understands as it does the tokenizer.json of another
    "bert-vocab": ("bert-uncased", functools.partial(from_transformers, "BertTokenizer", "bert-vocab")),
    "bert-cased-vocab": ("bert-cased", functools.partial(from_transformers, "BertTokenizer", "bert-cased-vocab")),
    "gpt2-files": ("gpt2", functools.partial(from_transformers, "GPT2Tokenizer", "gpt2-files")),
    "roberta-files": ("roberta", functools.partial(from_transformers, "RobertaTokenizer", "roberta-files")),
    "llama-sentencepiece": ("mistral", functools.partial(from_transformers, "LlamaTokenizer", "llama-sentencepiece")),
    "xlmr-sentencepiece": ("xlmr", functools.partial(from_transformers, "XLMRobertaTokenizer", "xlmr-sentencepiece")),
}
