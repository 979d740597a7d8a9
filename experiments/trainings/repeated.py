"""Random sequences that come twice, and new models to learn them: python repeated.py FOLDER [SEED]

Writes train.txt and validation.txt, a sequence r_1 … r_k r_1 … r_k per line, k from 3 to 15, no symbol twice among r_1 … r_k; and
layers-1 and layers-2, llama models of so many layers with random weights, whose vocabulary is the symbols and <s>.
"""
import array
import json
import pathlib
import random
import struct
import sys

SYMBOLS, SHORTEST, LONGEST = 64, 3, 15
LINES = {"train": 200_000, "validation": 2_000}
WIDTH, HEADS, FEED_FORWARD, POSITIONS = 64, 4, 128, 32
BOS = "<s>"
VOCABULARY = [BOS, *map(str, range(SYMBOLS))]


def write_lines(path, count, draw):
    with path.open("w") as file:
        for _ in range(count):
            once = draw.sample(VOCABULARY[1:], draw.randint(SHORTEST, LONGEST))
            file.write(" ".join(once + once) + "\n")


def write_json(path, content):
    path.write_text(json.dumps(content, indent=2) + "\n")


def write_tokenizer(folder):
    added = {"id": 0, "content": BOS, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    first, text = {"SpecialToken": {"id": BOS, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    write_json(folder / "tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [added], "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {"type": "TemplateProcessing", "single": [first, text], "pair": [first, text, {"Sequence": {"id": "B", "type_id": 0}}],
                           "special_tokens": {BOS: {"id": BOS, "ids": [0], "tokens": [BOS]}}},
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {token: id for id, token in enumerate(VOCABULARY)}, "unk_token": BOS}})
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BOS})


def write_config(folder, layers):
    write_json(folder / "config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": len(VOCABULARY), "hidden_size": WIDTH,
        "num_hidden_layers": layers, "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "intermediate_size": FEED_FORWARD,
        "hidden_act": "silu", "max_position_embeddings": POSITIONS, "rms_norm_eps": 1e-6, "attention_bias": False, "mlp_bias": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}, "bos_token_id": 0, "eos_token_id": None,
        "pad_token_id": None, "tie_word_embeddings": True, "dtype": "float32"})


def shapes_of(layers):
    shapes = {"model.embed_tokens.weight": [len(VOCABULARY), WIDTH], "model.norm.weight": [WIDTH]}
    for layer in range(layers):
        name = f"model.layers.{layer}."
        shapes |= {f"{name}{norm}.weight": [WIDTH] for norm in ("input_layernorm", "post_attention_layernorm")}
        shapes |= {f"{name}self_attn.{x}_proj.weight": [WIDTH, WIDTH] for x in "qkvo"}
        shapes |= {f"{name}mlp.{x}_proj.weight": [FEED_FORWARD, WIDTH] for x in ("gate", "up")}
        shapes[f"{name}mlp.down_proj.weight"] = [WIDTH, FEED_FORWARD]
    return shapes


def write_weights(folder, layers, draw):
    """Norms are 1, the others normal with deviation 0.02, as transformers begins."""
    header, values = {}, array.array("f")
    for name, shape in shapes_of(layers).items():
        begin = 4 * len(values)
        if len(shape) == 1:
            values.extend([1.0] * shape[0])
        else:
            values.extend(draw.gauss(0, 0.02) for _ in range(shape[0] * shape[1]))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, 4 * len(values)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + values.tobytes())


def main(folder, seed="0"):
    for name, count in LINES.items():
        folder.mkdir(parents=True, exist_ok=True)
        write_lines(folder / f"{name}.txt", count, random.Random(f"{seed} {name}"))
    for layers in (1, 2):
        model = folder / f"layers-{layers}"
        model.mkdir(exist_ok=True)
        write_config(model, layers)
        write_tokenizer(model)
        write_weights(model, layers, random.Random(f"{seed} weights {layers}"))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]), *sys.argv[2:])
