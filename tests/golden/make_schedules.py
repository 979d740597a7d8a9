"""Writes schedules.golden: the learning rates of transformers' schedules, for a rate of 1.

usage: make_schedules.py (in an environment with requirements.txt)
"""
import pathlib
import warnings

import torch
import transformers

warnings.filterwarnings("ignore")


def rates(make, steps):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = make(optimizer)
    values = []
    for _ in range(steps):
        values.append(schedule.get_last_lr()[0])
        schedule.step()
    return values


lines = []
for steps, warmup in [(12, 0), (12, 4), (30, 7), (5, 5), (4, 6)]:
    for kind, make in {
        "constant": lambda o: transformers.get_constant_schedule_with_warmup(o, warmup),
        "linear": lambda o: transformers.get_linear_schedule_with_warmup(o, warmup, steps),
        "cosine": lambda o: transformers.get_cosine_schedule_with_warmup(o, warmup, steps),
        "inverse_sqrt": lambda o: transformers.get_inverse_sqrt_schedule(o, warmup),
    }.items():
        values = " ".join(repr(float(v)) for v in rates(make, steps + 2))
        lines.append(f"{kind} {steps} {warmup} {values}\n")
(pathlib.Path(__file__).parent / "schedules.golden").write_text("".join(lines))
