"""Training steps as PyTorch and transformers make them (eager, sdpa). What a case asks for:

    {"folder": F, "task": T, "batches": [{"source": [[…], …], "target": [[…], …], "labels": [[…], …]}, …],
     "dropout": 0.1, "label_smoothing": 0.1, "threads": 2}
        T is "translation" (MarianMTModel), "causal_lm" (GPT2LMHeadModel) or "classification"
        (BertForSequenceClassification, one label per text). Sequences of a batch are padded to its longest; labels of
        padding are not scored. A run is one step on every batch: forward, loss, backward, clipping, AdamW.
        Outputs: the loss of every batch before the first step, without dropout

F is a folder that both sides read. AdamW is the fused one, gradients are set to None: PyTorch's best on a CPU.
"""

import torch
import transformers
from torch.nn.functional import cross_entropy

CLASSES = {
    "translation": "MarianMTModel",
    "causal_lm": "GPT2LMHeadModel",
    "classification": "BertForSequenceClassification",
}
NOT_SCORED = -100


def padded(rows, filler):
    longest = max(map(len, rows))
    return torch.tensor([row + [filler] * (longest - len(row)) for row in rows])


def mask_of(rows):
    """None where nothing is padded, which lets sdpa do without one."""
    longest = max(map(len, rows))
    if all(len(row) == longest for row in rows):
        return None
    return torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])


def tensors(batch, task):
    inputs = {"input_ids": padded(batch["source"], 0), "attention_mask": mask_of(batch["source"])}
    if task == "translation":
        inputs["decoder_input_ids"] = padded(batch["target"], 0)
    labels = torch.tensor(batch["labels"]) if task == "classification" else padded(batch["labels"], NOT_SCORED)
    return inputs, labels.flatten()


def with_dropout(model, dropout):
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = dropout
        for name in ("dropout", "activation_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, dropout if name == "dropout" else 0.0)


def prepare(case):
    torch.set_num_threads(case["threads"])
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    cls = getattr(transformers, CLASSES[case["task"]])
    model = cls.from_pretrained(case["folder"], attn_implementation="sdpa", dtype=torch.float32)
    with_dropout(model, case["dropout"])
    batches = [tensors(batch, case["task"]) for batch in case["batches"]]
    decays = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decays, "weight_decay": 0.01}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def loss_of(inputs, labels):
        logits = model(**inputs, use_cache=False).logits if case["task"] != "classification" else model(**inputs).logits
        return cross_entropy(logits.flatten(0, -2), labels, ignore_index=NOT_SCORED, label_smoothing=case["label_smoothing"])

    model.eval()
    with torch.no_grad():
        first = [loss_of(*batch) for batch in batches]
    model.train()

    def run():
        for batch in batches:
            optimizer.zero_grad(set_to_none=True)
            loss_of(*batch).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
            optimizer.step()

    return run, lambda: [torch.stack(first)]
