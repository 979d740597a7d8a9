"""A model for the LM Evaluation Harness: `lm_eval.simple_evaluate(model=headwise.lm_eval.LM(model), tasks=[…])`.

Gates hold while the harness runs:

    with model.gates({"L3.H1": 0}):
        results = lm_eval.simple_evaluate(model=headwise.lm_eval.LM(model), tasks=["hellaswag"])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
from tqdm import tqdm

from headwise.errors import Error
from headwise.model import Model

_LONGEST = 2048  # tokens, of models that take texts of any length
_STEP = 32  # tokens that are written before stop sequences are looked for


class LM(TemplateLM):
    """A causal language model, as the harness wants it."""

    def __init__(self, model: Model) -> None:
        if not isinstance(model, Model):
            raise Error("LM: cannot evaluate this", got=type(model).__name__, expected="a headwise.Model",
                        hint="A transformers model becomes one by headwise.load(model).")
        if not model._core.is_causal_lm:
            raise Error("LM: the harness evaluates causal language models", got=model.name,
                        expected="a model that predicts the next token")
        super().__init__()
        self.model = model
        self.max_length: int = model._core.max_positions or _LONGEST

    @property
    def eot_token_id(self) -> int:
        """<eos>, the token that ends a text."""
        return self._special(1)

    @property
    def prefix_token_id(self) -> int:
        """What the first token of a text is predicted from: <bos>, or <eos> where there is none."""
        return self._special(0)

    def _special(self, which: int) -> int:
        ends = self.model._core.text_ends
        found = ends[which] if ends[which] is not None else ends[1 - which]
        if found is None:
            raise Error("LM: the tokenizer has no token that begins or ends a text", got=self.model.name,
                        expected="<bos> or <eos>")
        return int(found)

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **others: Any) -> list[int]:
        """The token ids of a text. A text that begins with <bos> gets no other unless asked for."""
        if add_special_tokens is None:
            add_special_tokens = not string.startswith(self.model._core.tokens([self.prefix_token_id])[0])
        return list(self.model._core.encode(string, add_special_tokens))

    def loglikelihood_rolling(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[float]:
        """The log likelihood of whole texts, in windows where they are longer than the model takes."""
        results = []
        for instance in tqdm(requests, desc="log likelihoods", disable=disable_tqdm):
            (text,) = instance.args
            windows = get_rolling_token_windows(self.tok_encode(text), self.prefix_token_id, self.max_length, 1)
            parts = self._score(make_disjoint_window(window) for window in windows)
            results.append(sum(total for total, _ in parts))
            self.cache_hook.add_partial("loglikelihood_rolling", instance.args, results[-1])
        return results

    def generate_until(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[str]:
        """What the model writes after each prompt, up to a stop sequence."""
        results = []
        for instance in tqdm(requests, desc="texts", disable=disable_tqdm):
            context, given = instance.args
            results.append(self._write(context, dict(given)))
            self.cache_hook.add_partial("generate_until", instance.args, results[-1])
        return results

    def _loglikelihood_tokens(
        self, requests: Sequence[tuple[Any, list[int], list[int]]], disable_tqdm: bool = False, **others: Any
    ) -> list[tuple[float, bool]]:
        pairs = [(context, continuation) for _, context, continuation in requests]
        results = []
        for (key, _, _), result in zip(requests, self._score(tqdm(pairs, desc="log likelihoods", disable=disable_tqdm)),
                                       strict=True):
            results.append(result)
            if key is not None:
                self.cache_hook.add_partial("loglikelihood", key, result)
        return results

    def _score(self, pairs: Iterable[tuple[list[int], list[int]]]) -> Iterator[tuple[float, bool]]:
        """Of each continuation its log likelihood, and whether it is what the model would write."""
        for context, continuation in pairs:
            tokens = (context + continuation)[-(self.max_length + 1):]
            count = min(len(continuation), len(tokens) - 1)
            hidden, _ = self.model._run(tokens[:-1], None)
            logits = self.model._output(hidden[-count:]).astype(np.float64)
            best = logits.argmax(-1)
            logits -= logits.max(-1, keepdims=True)
            scores = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
            written = np.array(tokens[-count:])
            yield float(scores[np.arange(count), written].sum()), bool((best == written).all())

    def _write(self, context: str, given: dict[str, Any]) -> str:
        most = int(given.pop("max_gen_toks", 256))
        until = given.pop("until", None) or []
        stops = [until] if isinstance(until, str) else [stop for stop in until if stop]
        options = _generation(given)
        ids = self.tok_encode(context)[-max(1, self.max_length - most):]
        most = min(most, self.max_length + 1 - len(ids))
        step = most if options["sample"] or options["beams"] > 1 else _STEP
        new: list[int] = []
        while len(new) < most:
            wanted = min(step, most - len(new))
            part = self.model._core.generate([ids + new], self.model._gate_row(), max_new_tokens=wanted, **options)[0]
            new += part
            text = str(self.model._core.decode(new))
            found = [at for at in map(text.find, stops) if at >= 0]
            if found:
                return text[: min(found)]
            if len(part) < wanted or part[-1] == self.eot_token_id:
                break
        return str(self.model._core.decode(new))


def _generation(given: dict[str, Any]) -> dict[str, Any]:
    """The harness' names of settings as ours; greedy unless it asks for drawing."""
    sample = bool(given.pop("do_sample", False)) and float(given.get("temperature", 1.0)) > 0
    options: dict[str, Any] = {"sample": sample, "beams": int(given.pop("num_beams", 1)), "temperature": None, "top_k": None,
                               "top_p": None, "seed": int(given.pop("seed", 0))}
    for name in ("temperature", "top_k", "top_p"):
        value = given.pop(name, None)
        if sample and value is not None:
            options[name] = value
    if given:
        raise Error("LM: a setting of generation that headwise does not have", got=", ".join(given),
                    expected="until, max_gen_toks, do_sample, temperature, top_k, top_p, num_beams or seed")
    return options
