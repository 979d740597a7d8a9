"""The recipe of sst2.json in PyTorch, for comparison: python peer_sst2.py MODEL TRAIN.tsv DEV.tsv [SEED...]

Prints the accuracy on DEV for each seed. Batches have texts of similar lengths and at most 800 tokens, as ours.
"""
import random
import sys
import time

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

TOKENS, RATE, WARMUP, DECAY, DROPOUT = 800, 5e-5, 22, 0.01, 0.1


def read(path, tokenizer):
    lines = [line.rstrip("\n").split("\t") for line in open(path, encoding="utf-8")]
    return [(tokenizer(text, truncation=True, max_length=128)["input_ids"], int(label)) for text, label in lines]


def batches(examples, shuffle):
    order = list(range(len(examples)))
    if shuffle:
        random.shuffle(order)
        pool = 32 * TOKENS * len(order) // sum(len(ids) for ids, _ in examples)
        order = [i for at in range(0, len(order), pool) for i in sorted(order[at : at + pool], key=lambda i: len(examples[i][0]))]
    groups, tokens = [[]], 0
    for i in order:
        if tokens + len(examples[i][0]) > TOKENS:
            groups.append([])
            tokens = 0
        groups[-1].append(i)
        tokens += len(examples[i][0])
    if shuffle:
        random.shuffle(groups)
    return groups


def tensors(examples, group):
    longest = max(len(examples[i][0]) for i in group)
    ids = torch.tensor([examples[i][0] + [0] * (longest - len(examples[i][0])) for i in group])
    mask = torch.tensor([[1] * len(examples[i][0]) + [0] * (longest - len(examples[i][0])) for i in group])
    return ids, mask, torch.tensor([examples[i][1] for i in group])


def run(model_folder, train, dev, seed):
    random.seed(seed)
    torch.manual_seed(seed)
    model = AutoModelForSequenceClassification.from_pretrained(
        model_folder, num_labels=2, hidden_dropout_prob=DROPOUT, attention_probs_dropout_prob=0.0
    )
    plain = [p for n, p in model.named_parameters() if n.endswith("bias") or "LayerNorm" in n]
    rest = [p for n, p in model.named_parameters() if not (n.endswith("bias") or "LayerNorm" in n)]
    optimizer = torch.optim.AdamW([{"params": rest, "weight_decay": DECAY}, {"params": plain, "weight_decay": 0.0}], lr=RATE)
    groups = batches(train, True)
    model.train()
    for step, group in enumerate(groups):
        rate = RATE * min(step / WARMUP, (len(groups) - step) / (len(groups) - WARMUP))
        for each in optimizer.param_groups:
            each["lr"] = rate
        ids, mask, labels = tensors(train, group)
        model(input_ids=ids, attention_mask=mask, labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    right = 0
    with torch.inference_mode():
        for group in batches(dev, False):
            ids, mask, labels = tensors(dev, group)
            right += int((model(input_ids=ids, attention_mask=mask).logits.argmax(-1) == labels).sum())
    return right / len(dev)


if __name__ == "__main__":
    folder, train_file, dev_file, *seeds = sys.argv[1:]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    train, dev = read(train_file, tokenizer), read(dev_file, tokenizer)
    for seed in map(int, seeds or ["0", "1", "2"]):
        start = time.time()
        print(f"seed {seed}: {run(folder, train, dev, seed):.4f}, {time.time() - start:.0f} s", flush=True)
