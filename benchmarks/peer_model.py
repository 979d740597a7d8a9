"""Models as transformers, ONNX Runtime and CTranslate2 run them. What a case asks for:

    {"op": "encode", "engine": E, "folder": F, "ids": [[…], …], "batches": 1, "threads": 2}
        E is "transformers" (sdpa), "onnxruntime" or "ctranslate2". Sequences are sorted by length, split into that
        many batches and padded to the longest of each. Outputs: [T, C], the last hidden states of the real tokens,
        in the order of `ids`
    {"op": "statistics", "folder": F, "ids": [[…], …], "threads": 2}
        transformers with eager attention, and every label-free statistic from its maps. All sequences must be of one
        length N. Outputs: [T, C] as above, then [L, H, 30], the means in the order of peer_attention.py
    {"op": "memory", …}     as statistics. Outputs: one number, the MiB by which the resident set grew at most during
                            a pass. Ask a new process: memory that is kept from an earlier case is not counted
    {"op": "generate", "folder": F, "ids": […], "tokens": 200, "dtype": "float32", "threads": 2}
        greedy decoding of a causal model with a key/value cache, that many tokens whatever they are; `dtype` may be
        "auto", the one that F is stored in. Outputs: the new ids

F is a folder that both sides read: a BertModel with a vocab.txt, which CTranslate2's converter wants; for `generate`
a causal model. ONNX Runtime and CTranslate2 need their own form of F, made inside it on first use.
"""

import math
import pathlib

import torch

from peer_attention import MAP_BYTES, MAX_OFFSET, given_keys, key_sets


class Batches:
    """Sequences sorted by length, in batches padded to their longest; no mask where nothing is padded."""

    def __init__(self, sequences, count):
        order = sorted(range(len(sequences)), key=lambda i: len(sequences[i]))
        size = -(-len(order) // count)
        self.groups = [order[at : at + size] for at in range(0, len(order), size)]
        self.sequences = sequences
        self.ids, self.masks = [], []
        for group in self.groups:
            longest = max(len(sequences[i]) for i in group)
            rows = [sequences[i] + [0] * (longest - len(sequences[i])) for i in group]
            mask = [[1] * len(sequences[i]) + [0] * (longest - len(sequences[i])) for i in group]
            self.ids.append(torch.tensor(rows))
            self.masks.append(torch.tensor(mask))

    def mask_or_none(self, batch):
        return None if self.masks[batch].all() else self.masks[batch]

    def real_rows(self, hidden):
        """[T, C] of the hidden states of all batches, in the order of the sequences."""
        rows = [None] * len(self.sequences)
        for group, states in zip(self.groups, hidden):
            for at, i in enumerate(group):
                rows[i] = torch.as_tensor(states[at][: len(self.sequences[i])])
        return torch.cat(rows)


def load(folder, attention):
    """The encoder in float32, without the pooler, which nobody asks for."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    model = transformers.BertModel.from_pretrained(
        folder, attn_implementation=attention, dtype=torch.float32, add_pooling_layer=False
    )
    return model.eval()


def encode_transformers(case, batches):
    model = load(case["folder"], "sdpa")
    inputs = [(ids, batches.mask_or_none(b)) for b, ids in enumerate(batches.ids)]
    hidden = []

    @torch.inference_mode()
    def run():
        hidden[:] = [model(input_ids=ids, attention_mask=mask).last_hidden_state for ids, mask in inputs]

    return run, lambda: [batches.real_rows(hidden)]


class HiddenStates(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


def onnx_file(folder):
    """The exported model after ONNX Runtime's own fusions, which know attention as this exporter writes eager."""
    from onnxruntime.transformers import optimizer

    file = pathlib.Path(folder) / "fused.onnx"
    if not file.exists():
        model = load(folder, "eager")
        exported = file.with_name("exported.onnx")
        ids = torch.arange(14).view(2, 7)
        mask = (ids != 13).long()
        names = ["input_ids", "attention_mask"]
        torch.onnx.export(
            HiddenStates(model).eval(),
            (ids, mask),
            str(exported),
            input_names=names,
            output_names=["hidden"],
            dynamic_axes={name: {0: "batch", 1: "length"} for name in [*names, "hidden"]},
            opset_version=17,
            dynamo=False,
        )
        config = model.config
        fused = optimizer.optimize_model(
            str(exported), "bert", num_heads=config.num_attention_heads, hidden_size=config.hidden_size
        )
        if not fused.get_nodes_by_op_type("Attention"):
            raise RuntimeError("ONNX Runtime fused no attention: its figures would not be its best")
        fused.save_model_to_file(str(file))
    return file


def encode_onnxruntime(case, batches):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = case["threads"]
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(onnx_file(case["folder"]), options, providers=["CPUExecutionProvider"])
    inputs = [
        {"input_ids": ids.numpy(), "attention_mask": mask.numpy()} for ids, mask in zip(batches.ids, batches.masks)
    ]
    hidden = []

    def run():
        hidden[:] = [session.run(None, feed)[0] for feed in inputs]

    return run, lambda: [batches.real_rows(hidden)]


def encode_ctranslate2(case, batches):
    import ctranslate2
    import numpy
    import transformers

    converted = pathlib.Path(case["folder"]) / "ctranslate2"
    if not converted.exists():
        transformers.BertConfig.position_embedding_type = (
            "absolute"  # the converter asks; version 5 has only this one
        )
        ctranslate2.converters.TransformersConverter(case["folder"]).convert(str(converted))
    encoder = ctranslate2.Encoder(
        str(converted), device="cpu", compute_type="float32", inter_threads=1, intra_threads=case["threads"]
    )
    inputs = []
    for ids, mask in zip(batches.ids, batches.masks):
        both = ids.to(torch.int32).numpy(), mask.sum(1).to(torch.int32).numpy()
        inputs.append(tuple(ctranslate2.StorageView.from_array(array) for array in both))
    hidden = []

    def run():
        hidden[:] = [encoder.forward_batch(ids, lengths).last_hidden_state for ids, lengths in inputs]

    return run, lambda: [batches.real_rows([numpy.array(states) for states in hidden])]


class MapStatistics:
    """Every label-free statistic of one layer's maps, taken in pieces that stay in the cache."""

    def __init__(self, n):
        i = torch.arange(n)
        floats = torch.get_num_threads() * MAP_BYTES // 4
        self.n = n
        self.rows = max(1, min(n, floats // n))
        self.maps = max(1, floats // (n * n))
        self.distances = (i[:, None] - i[None, :]).abs().float().contiguous()
        self.positions = i
        self.sets = key_sets(n)
        self.given = given_keys(n)
        self.offsets = torch.arange(-MAX_OFFSET, MAX_OFFSET + 1)

    def means(self, maps):
        """[B, H, N, N] to [H, 30]."""
        b, h, n, _ = maps.shape
        p = maps.reshape(b * h, n, n)
        entropy, confidence, distance, given = (torch.zeros(b * h) for _ in range(4))
        columns, diagonals = torch.zeros(b * h, n), torch.zeros(5, b * h)
        largest = torch.empty(b * h, n, dtype=torch.int64)
        for m0 in range(0, b * h, self.maps):
            for r0 in range(0, n, self.rows):
                m, r = slice(m0, m0 + self.maps), slice(r0, r0 + self.rows)
                piece = p[m, r]
                count = piece.shape[0]
                top = piece.max(-1)
                largest[m, r] = top.indices
                confidence[m] += top.values.sum(-1)
                entropy[m] += torch.special.entr(piece).sum((1, 2))
                columns[m] += piece.sum(1)
                distance[m] += piece.reshape(count, -1) @ self.distances[r].view(-1)
                given[m] += piece.gather(2, self.given[r].view(1, -1, 1).expand(count, -1, 1)).sum((1, 2))
                for at, offset in enumerate(range(-2, 3)):
                    diagonals[at, m] += piece.diagonal(r0 + offset, 1, 2).sum(-1)
        hits = (largest - self.positions)[..., None] == self.offsets
        sums = torch.cat(
            [
                torch.stack([entropy, entropy / math.log(n), confidence, distance], 1),
                diagonals[1:4].T,
                columns[:, [0, n - 1]],
                columns @ self.sets,
                diagonals.sum(0)[:, None],
                given[:, None],
                hits.sum(1),
            ],
            1,
        )
        counts = [n] * 4 + [n - 1, n, n - 1] + [n] * 6 + [n - abs(o) for o in self.offsets.tolist()]
        return sums.view(b, h, -1).sum(0) / (torch.tensor(counts) * b)


def statistics(case):
    model = load(case["folder"], "eager")
    ids = torch.tensor(case["ids"])
    of_maps = MapStatistics(ids.shape[1])
    results = []

    @torch.inference_mode()
    def run():
        out = model(input_ids=ids, output_attentions=True)
        results[:] = [out.last_hidden_state.flatten(0, 1), torch.stack([of_maps.means(m) for m in out.attentions])]

    return run, lambda: results


def resident_kib(field):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field))


def memory(case):
    short = dict(case, ids=[sequence[:16] for sequence in case["ids"]])
    statistics(short)[0]()  # whatever is made on a first call
    run, _ = statistics(case)
    before = resident_kib("VmRSS")
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")  # forgets the peak
    run()
    grown = (resident_kib("VmHWM") - before) / 1024
    return lambda: None, lambda: [torch.tensor([grown])]


def generate(case):
    import transformers

    dtype = "auto" if case["dtype"] == "auto" else getattr(torch, case["dtype"])
    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModelForCausalLM.from_pretrained(case["folder"], dtype=dtype).eval()
    prompt = torch.tensor([case["ids"]])
    found = []

    @torch.inference_mode()
    def run():
        found.clear()
        cache = transformers.DynamicCache(config=model.config)
        ids = prompt
        for _ in range(case["tokens"]):
            logits = model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
            ids = logits[:, -1].argmax(-1, keepdim=True)
            found.append(ids.item())

    return run, lambda: [torch.tensor(found)]


def prepare(case):
    torch.set_num_threads(case["threads"])
    if case["op"] == "encode":
        engines = {
            "transformers": encode_transformers,
            "onnxruntime": encode_onnxruntime,
            "ctranslate2": encode_ctranslate2,
        }
        return engines[case["engine"]](case, Batches(case["ids"], case["batches"]))
    ops = {"statistics": statistics, "memory": memory, "generate": generate}
    return ops[case["op"]](case)
