"""Write a model folder of a known shape with random weights, and the tokenizer of another folder.

    python3 benchmarks/random_model.py bert-base OUT --tokenizer FOLDER
    python3 benchmarks/random_model.py smollm-135m OUT --tokenizer FOLDER

`headwise study OUT` then shows what a study of that shape costs: speed depends on the shape, not on the weights. The tokenizer's
ids must be below the vocabulary of the shape. Needs numpy.
"""

import argparse
import json
import pathlib
import shutil

import numpy as np

TOKENIZER_FILES = ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "tokenizer.model", "vocab.txt"]

BERT = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "vocab_size": 30522,
}
SMOLLM = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "intermediate_size": 1536,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
    "attention_bias": False,
    "mlp_bias": False,
    "vocab_size": 49152,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


class Weights:
    def __init__(self):
        self.random = np.random.default_rng(1)
        self.tensors = {}

    def matrix(self, name, rows, columns, deviation):
        self.tensors[name] = self.random.standard_normal((rows, columns), dtype=np.float32) * np.float32(deviation)

    def linear(self, name, outputs, inputs, bias=True):
        self.matrix(name + ".weight", outputs, inputs, inputs**-0.5)
        if bias:
            self.vector(name + ".bias", outputs, 0)

    def vector(self, name, size, mean):
        self.tensors[name] = (mean + 0.1 * self.random.random(size, dtype=np.float32)).astype(np.float32)

    def norm(self, name, width):
        self.vector(name + ".weight", width, 1)
        self.vector(name + ".bias", width, 0)

    def save(self, file):
        header, at = {"__metadata__": {"format": "pt"}}, 0
        for name, tensor in self.tensors.items():
            header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + tensor.nbytes]}
            at += tensor.nbytes
        head = json.dumps(header).encode()
        head += b" " * (-len(head) % 8)
        with open(file, "wb") as out:
            out.write(len(head).to_bytes(8, "little") + head)
            for tensor in self.tensors.values():
                out.write(tensor.tobytes())


def bert(config):
    w, width = Weights(), config["hidden_size"]
    w.matrix("embeddings.word_embeddings.weight", config["vocab_size"], width, 1)
    w.matrix("embeddings.position_embeddings.weight", config["max_position_embeddings"], width, 0.3)
    w.matrix("embeddings.token_type_embeddings.weight", config["type_vocab_size"], width, 0.1)
    w.norm("embeddings.LayerNorm", width)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"encoder.layer.{layer}."
        for part in ("query", "key", "value"):
            w.linear(prefix + "attention.self." + part, width, width)
        w.linear(prefix + "attention.output.dense", width, width)
        w.norm(prefix + "attention.output.LayerNorm", width)
        w.linear(prefix + "intermediate.dense", config["intermediate_size"], width)
        w.linear(prefix + "output.dense", width, config["intermediate_size"])
        w.norm(prefix + "output.LayerNorm", width)
    w.linear("pooler.dense", width, width)
    return w


def llama(config):
    w, width = Weights(), config["hidden_size"]
    keys = width // config["num_attention_heads"] * config["num_key_value_heads"]
    w.matrix("model.embed_tokens.weight", config["vocab_size"], width, 0.05)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        w.vector(prefix + "input_layernorm.weight", width, 1)
        w.vector(prefix + "post_attention_layernorm.weight", width, 1)
        for part, outputs, inputs in (
            ("self_attn.q_proj", width, width),
            ("self_attn.k_proj", keys, width),
            ("self_attn.v_proj", keys, width),
            ("self_attn.o_proj", width, width),
            ("mlp.gate_proj", config["intermediate_size"], width),
            ("mlp.up_proj", config["intermediate_size"], width),
            ("mlp.down_proj", width, config["intermediate_size"]),
        ):
            w.linear(prefix + part, outputs, inputs, bias=False)
    w.vector("model.norm.weight", width, 1)
    return w


SHAPES = {"bert-base": (BERT, bert), "smollm-135m": (SMOLLM, llama)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--tokenizer", type=pathlib.Path, required=True, help="a folder with a tokenizer")
    args = parser.parse_args()
    config, make = SHAPES[args.shape]
    args.out.mkdir(parents=True)
    make(config).save(args.out / "model.safetensors")
    (args.out / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    for name in TOKENIZER_FILES:
        if (args.tokenizer / name).exists():
            shutil.copy(args.tokenizer / name, args.out / name)


if __name__ == "__main__":
    main()
