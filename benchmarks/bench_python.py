"""attn_implementation="headwise" against sdpa and eager of the same transformers, interleaved in one run.

Ratios above 1 mean that headwise is faster. Run by ./dev bench python --peer PYTHON.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import subprocess
import sys
import time

import torch
import transformers

import headwise.torch

SHAPES = [(8, 128), (2, 512)]


def model(name: str, implementation: str) -> torch.nn.Module:
    config = transformers.BertConfig() if name == "bert" else transformers.GPT2Config()
    cls = transformers.BertModel if name == "bert" else transformers.GPT2Model
    config._attn_implementation = implementation
    torch.manual_seed(1)
    return cls(config).eval()


def forward(m: torch.nn.Module, ids: torch.Tensor) -> None:
    with torch.no_grad():
        m(input_ids=ids, use_cache=False) if isinstance(m, transformers.GPT2Model) else m(input_ids=ids)


def backward(m: torch.nn.Module, ids: torch.Tensor) -> None:
    out = m(input_ids=ids, use_cache=False) if isinstance(m, transformers.GPT2Model) else m(input_ids=ids)
    out.last_hidden_state.pow(2).mean().backward()
    m.zero_grad()


def no_attention(module: torch.nn.Module, query: torch.Tensor, *others: object, **options: object) -> tuple[torch.Tensor, None]:
    """What the best attention could cost: nothing."""
    return query.transpose(1, 2).contiguous(), None


def interleaved(works: dict[str, object], rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(rounds):
        for name, work in works.items():
            begin = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(values) for name, values in times.items()}


def say(what: str, shape: tuple[int, int], peer: str, times: dict[str, float]) -> None:
    ours, theirs = times["headwise"], times[peer]
    ratio = theirs / ours
    verdict = "equal" if abs(ratio - 1) < 0.08 else "faster" if ratio > 1 else "slower"
    print(f"{what:28} {shape[0]} x {shape[1]:<4} headwise {ours * 1e3:8.1f} ms  {peer} {theirs * 1e3:8.1f} ms  "
          f"ratio {ratio:5.2f}  {verdict}", flush=True)


def passes(rounds: int) -> None:
    """Forward and backward against sdpa."""
    for name in ("bert", "gpt2"):
        ours, sdpa = model(name, "headwise"), model(name, "sdpa")
        for shape in SHAPES:
            ids = torch.randint(0, 30000, shape)
            for what, work in (("forward", forward), ("forward and backward", backward)):
                times = interleaved({"headwise": lambda: work(ours, ids), "sdpa": lambda: work(sdpa, ids)}, rounds)
                say(f"{name} {what}", shape, "sdpa", times)
        del ours, sdpa
        gc.collect()


def with_statistics(rounds: int) -> None:
    """Statistics of all heads against eager with the entropy of its maps, and what no attention could be faster than."""
    for name in ("bert", "gpt2"):
        ours, eager = model(name, "headwise"), model(name, "eager")
        heads = headwise.torch.Heads(ours)

        def observed(ids: torch.Tensor) -> None:
            with heads.observe():
                forward(ours, ids)

        def entropies(ids: torch.Tensor) -> None:
            with torch.no_grad():
                for p in eager(input_ids=ids, output_attentions=True).attentions:
                    -(p * torch.log(p + 1e-30)).sum(-1).mean((0, 2))

        empty = model(name, "nothing")
        for shape in SHAPES:
            ids = torch.randint(0, 30000, shape)
            times = interleaved(
                {"headwise": lambda: observed(ids), "eager": lambda: entropies(ids), "nothing": lambda: forward(empty, ids)},
                rounds)
            say(f"{name} statistics", shape, "eager", times)
            limit = times["eager"] / times["nothing"]
            print(f"{'':28} without any attention {times['nothing'] * 1e3:8.1f} ms: no ratio can be above {limit:.2f}", flush=True)
        del ours, eager, empty
        gc.collect()


def attentions(rounds: int) -> None:
    """The attention of one layer alone, with statistics, against eager's with the entropy of its maps."""
    from transformers.models.bert.modeling_bert import eager_attention_forward

    module = model("bert", "headwise").encoder.layer[0].attention.self
    heads = headwise.torch.Heads(model("bert", "headwise"))
    observed_module = heads.modules["L0"]
    for shape in SHAPES:
        q, k, v = (torch.randn(shape[0], shape[1], 12, 64).transpose(1, 2) for _ in range(3))
        scale = 64**-0.5

        def ours() -> None:
            with torch.no_grad(), heads.observe():
                for _ in range(10):
                    headwise.torch.interface.attention_forward(observed_module, q, k, v, None, scaling=scale, is_causal=False)

        def theirs() -> None:
            with torch.no_grad():
                for _ in range(10):
                    p = eager_attention_forward(module, q, k, v, None, scaling=scale)[1]
                    -(p * torch.log(p + 1e-30)).sum(-1).mean((0, 2))

        say("10 attentions, statistics", shape, "eager", interleaved({"headwise": ours, "eager": theirs}, rounds))


def memory(implementation: str) -> None:
    """Prints how much the peak of this process grows while statistics are measured, in MB."""
    m = model("gpt2", implementation)
    ids = torch.randint(0, 30000, (2, 512))
    forward(m, ids[:, :8])
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak begins anew
    before = peak()
    with torch.no_grad():
        if implementation == "eager":
            m(input_ids=ids, output_attentions=True, use_cache=False)
        else:
            with headwise.torch.Heads(m).observe():
                m(input_ids=ids, use_cache=False)
    print(peak() - before)


def peak() -> float:
    """The most memory that this process has held, in MB."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024


def import_time(module: str) -> float:
    code = f"import time, numpy; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    runs = [float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout) for _ in range(7)]
    return statistics.median(runs)


def memory_and_import(rounds: int) -> None:
    peaks = {
        name: float(subprocess.run([sys.executable, __file__, "--memory", name], capture_output=True, check=True).stdout)
        for name in ("headwise", "eager")
    }
    print(f"gpt2 statistics, peak memory   2 x 512  headwise {peaks['headwise']:.0f} MB  eager {peaks['eager']:.0f} MB")
    print(f"import headwise                {import_time('headwise') * 1e3:.0f} ms beyond import numpy")


PARTS = {"passes": passes, "statistics": with_statistics, "attention": attentions, "memory": memory_and_import}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--part", choices=list(PARTS), action="append", help="only this part")
    parser.add_argument("--memory", choices=["headwise", "eager"])
    options = parser.parse_args()
    headwise.torch.register()
    transformers.AttentionInterface.register("nothing", no_attention)
    transformers.AttentionMaskInterface.register("nothing", transformers.masking_utils.sdpa_mask)
    if options.memory:
        memory(options.memory)
        return
    torch.set_num_threads(options.threads)
    headwise.set_threads(options.threads)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {options.threads} threads")
    for part in options.part or PARTS:
        PARTS[part](options.rounds)


if __name__ == "__main__":
    main()
