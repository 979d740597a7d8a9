"""A model from a folder: run it, gate its heads, measure, plan and prune them."""

from __future__ import annotations

import difflib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headwise import _core
from headwise.attention import Floats
from headwise.attend import AttentionMap
from headwise.errors import Error
from headwise.heads import HeadNames, HeadsLike
from headwise.results import Evidence, Plan, Study, Verdict

if TYPE_CHECKING:
    import transformers

#: Text, or token ids.
Text = str | Sequence[int] | NDArray[Any]
#: Called with what is under way, how much of it is done, and all of it. True: a bar if tqdm is installed; False: nothing.
Progress = bool | Callable[[str, int, int], None]


def load(model: str | os.PathLike[str] | transformers.PreTrainedModel, *, tokenizer: Any = None,
         allow_unexpected: bool = False, allow_nonfinite: bool = False) -> Model:
    """A model from a folder, by its id in the local Hugging Face cache, or a transformers model in memory.

    A transformers model is saved into a temporary folder and read from there, with `tokenizer`, or with that of the folder or
    id that the model is from.
    """
    if isinstance(model, (str, os.PathLike)):
        return Model(_core.load(os.fspath(model), allow_unexpected, allow_nonfinite))
    if not hasattr(model, "save_pretrained"):
        raise Error("load: cannot read this", got=type(model).__name__, expected="a folder, an id or a transformers model")
    aside = tempfile.TemporaryDirectory(prefix="headwise-")
    folder = os.path.join(aside.name, type(model).__name__)
    model.save_pretrained(folder)
    tokenizer = tokenizer if tokenizer is not None else _tokenizer_of(model)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    loaded = Model(_core.load(folder, allow_unexpected, allow_nonfinite))
    loaded._keep = aside
    return loaded


def _tokenizer_of(model: Any) -> Any:
    """The tokenizer of the folder or id that a transformers model was loaded from, if that is on this machine."""
    origin = getattr(model, "name_or_path", "")
    if not origin:
        return None
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(origin, local_files_only=True)
    except (OSError, ValueError):
        return None


class Model:
    """A transformer whose heads can be gated, observed and removed."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self._keep: Any = None
        attentions = core.attentions()
        self.names = HeadNames([(name, len(heads)) for name, heads, _ in attentions])
        self._names = [f"{name}.H{h}" for name, heads, _ in attentions for h in heads]
        self._rotary = {name for name, _, rotary in attentions if rotary}
        self._index = {name: i for i, name in enumerate(self._names)}
        self._gates: Floats | None = None

    from_pretrained = staticmethod(load)

    @property
    def name(self) -> str:
        """The last part of the folder, or the id that it was loaded by."""
        return str(self._core.name)

    @property
    def folder(self) -> str:
        """Where it was read from."""
        return str(self._core.folder)

    @property
    def heads(self) -> list[str]:
        """The names of all heads. Pruning leaves gaps in them."""
        return list(self._names)

    @property
    def hash(self) -> str:
        """SHA-256 of the files with weights."""
        return str(self._core.hash())

    def __repr__(self) -> str:
        return f"Model({self.name!r}, {len(self._names)} heads)"

    def __reduce__(self) -> Any:
        raise TypeError("a Model cannot be pickled: save() it and load() it in the other process")

    # Running

    def __call__(self, text: Text, target: Text | None = None) -> Floats:
        """The output of a text: logits where the model has an output layer, else its last hidden states [tokens, width]."""
        ids = self.encode(text)
        hidden, _ = self._run(ids, target)
        if not self._core.has_output:
            return hidden
        return self._output(hidden)

    def hidden(self, text: Text, target: Text | None = None) -> Floats:
        """The last hidden states [tokens, width]."""
        return self._run(self.encode(text), target)[0]

    def encode(self, text: Text) -> list[int]:
        """The token ids of a text."""
        return list(self._core.encode(text)) if isinstance(text, str) else [int(i) for i in text]

    def tokens(self, text: Text) -> list[str]:
        """The tokens of a text."""
        return list(self._core.tokens(self.encode(text)))

    @contextmanager
    def gates(self, gates: Mapping[Any, float] | NDArray[Any]) -> Iterator[None]:
        """Gates of the heads until the block ends: {"L3.H1": 0, "L5": 0.5}, or an array with one number for each head."""
        before = self._gates
        own = np.ones(len(self._names), np.float32)
        if isinstance(gates, Mapping):
            for heads, gate in gates.items():
                for head in self._find(heads):
                    own[head] = gate
        else:
            given = np.asarray(gates, np.float32).reshape(-1)
            if given.shape != own.shape:
                raise Error("gates: not one for each head", got=str(given.size), expected=str(own.size))
            own = given
        self._gates = own if before is None else own * before
        try:
            yield
        finally:
            self._gates = before

    def attend(self, text: Text, target: Text | None = None, heads: HeadsLike = "all") -> AttentionMap:
        """The attention weights of heads on a text. In a notebook they show themselves as a picture."""
        ids = self.encode(text)
        chosen = [self._names[i] for i in self._find(heads)]
        sites = list(dict.fromkeys(name.rpartition(".")[0] for name in chosen))
        _, found = self._run(ids, target, [f"{site}.pattern" for site in sites])
        weights = {}
        for name in chosen:
            site, _, head = name.rpartition(".")
            order = [other for other in self._names if other.rpartition(".")[0] == site].index(name)
            weights[name] = np.ascontiguousarray(found[f"{site}.pattern"][:, order])
        return AttentionMap(weights, self._labels(ids), self._labels(self.encode(target)) if target is not None else None)

    def run_with_cache(self, text: Text, target: Text | None = None) -> tuple[Floats, ActivationCache]:
        """The output of a text, and its activations by the names of TransformerLens, computed when asked for."""
        return self(text, target), ActivationCache(self, self.encode(text), target)

    def generate(
        self,
        text: Text,
        *,
        max_new_tokens: int | None = None,
        beams: int | None = None,
        sample: bool | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
    ) -> str:
        """What the model writes: after a prompt, or as a translation. Unless given, settings are those of the folder.

        beams        how many hypotheses a beam search keeps; 1: none.
        sample       draw from the distribution, at this temperature, from the top_k or top_p most probable tokens.
        """
        options = dict(max_new_tokens=max_new_tokens, beams=beams, sample=sample, temperature=temperature, top_k=top_k,
                       top_p=top_p, seed=seed)
        return str(self._core.decode(self._core.generate([self.encode(text)], self._gate_row(), **options)[0]))

    def _output(self, hidden: Floats) -> Floats:
        """The output layer on the hidden states of one text."""
        output, _ = self._core.output(hidden, np.array([0, len(hidden)], np.int64))
        return np.asarray(output)

    def _gate_row(self) -> Floats | None:
        return None if self._gates is None else self._gates[None]

    def _labels(self, ids: list[int]) -> list[str]:
        return list(self._core.tokens(ids)) if self._core.has_tokenizer else [str(i) for i in ids]

    def _run(self, ids: list[int], target: Text | None, record: Sequence[str] = ()) -> tuple[Floats, dict[str, Floats]]:
        targets = [] if target is None else [self.encode(target)]
        hidden, found = self._core.forward([ids], targets, self._gate_row(), list(record))
        return hidden, found

    def _find(self, heads: HeadsLike) -> list[int]:
        """The numbers of heads among all heads. Heads go by their names, which pruning leaves as they were."""
        if isinstance(heads, str):
            found: list[int] = []
            for part in (part.strip() for part in heads.split(",")):
                members = [i for i, name in enumerate(self._names)
                           if part == "all" or name == part or name.rpartition(".")[0] == part]
                if not members:
                    self.names.find(part)  # says what is wrong with it
                    raise Error("heads: the model has no such head", got=part, expected=", ".join(self._names[:3]) + ", …")
                found += members
            return list(dict.fromkeys(found))
        return [self._index[f"{self.names.attentions[site][0]}.H{head}"] for site, head in self.names.find(heads)]

    # The pipeline

    def observe(
        self,
        texts: Iterable[str] = (),
        *,
        treebank: str | os.PathLike[str] | None = None,
        coreference: str | os.PathLike[str] | None = None,
        data: str | os.PathLike[str] | None = None,
        measures: Sequence[str] = (),
        loss: str = "",
        probes: bool = True,
        truncate: bool = True,
        seed: int = 0,
        progress: Progress = True,
    ) -> Evidence:
        """Measures every head on texts, a treebank (CoNLL-U), coreference items (GAP) and a labelled file.

        measures  "attention", "linguistic", "similarity", "importance" or single measures; all unless given.
        loss      what importance is measured by: "lm", "mlm", "classify", "similarity", "translate", "fidelity".
        probes    also measure on the built-in sentences.
        truncate  cut texts that are too long for the model; otherwise they are refused.
        """
        files = _files(treebank=treebank, coreference=coreference, data=data)
        with _shown(progress, "observe") as call:
            return Evidence(_core.observe(self._core, _texts(texts), files, list(measures), loss, probes, seed, truncate, call))

    def plan(
        self,
        verdict: Verdict,
        *,
        keep: float | None = None,
        heads: int | None = None,
        speedup: float | None = None,
        drop: str = "",
        order: str = "",
        at_least: int = 1,
        uniform: bool = False,
        keep_roles: Sequence[str] = (),
        seed: int = 0,
        progress: Progress = True,
    ) -> Plan:
        """Chooses heads to remove for a budget: a share that stays (`keep`), a number (`heads`), or a speedup."""
        with _shown(progress, "plan") as call:
            return Plan(_core.plan(self._core, verdict._core, keep=keep, heads=heads, speedup=speedup, drop=drop, order=order,
                                   at_least=at_least, uniform=uniform, keep_roles=list(keep_roles), seed=seed, progress=call))

    def prune(
        self,
        plan: Plan,
        *,
        form: str = "compact",
        compensate: str = "none",
        texts: Iterable[str] = (),
        recover: str | os.PathLike[str] | None = None,
        epochs: int = 1,
        rounds: int = 1,
        loss: str = "",
        seed: int = 0,
        progress: Progress = True,
    ) -> PrunedModel:
        """The model without the heads of the plan, compared with the model with gates of 0. `save()` writes it.

        form        "compact", "masked" or "uniform"; docs/prune.md says what loads each.
        compensate  "mean" or "least_squares" replaces the outputs of the removed heads, fitted on `texts`.
        recover     a file of examples to train on afterwards, for so many epochs and rounds.
        """
        with _shown(progress, "prune") as call:
            return PrunedModel(_core.prune(
                self._core, plan._core, form=form, compensate=compensate, texts=_texts(texts),
                recover=None if recover is None else os.fspath(recover), epochs=epochs, rounds=rounds, loss=loss, seed=seed,
                progress=call))

    def study(
        self,
        texts: Iterable[str] = (),
        *,
        treebank: str | os.PathLike[str] | None = None,
        coreference: str | os.PathLike[str] | None = None,
        data: str | os.PathLike[str] | None = None,
        loss: str = "",
        keep: float | None = None,
        passes: float | None = None,
        seconds: float | None = None,
        thorough: bool = False,
        probes: bool = True,
        form: str = "compact",
        order: str = "",
        out: str | os.PathLike[str] | None = None,
        resume: bool = False,
        seed: int = 0,
        progress: Progress = True,
    ) -> Study:
        """The whole pipeline: observe, judge, plan, prune. Without texts, on a built-in one.

        treebank, coreference, data, loss   as in `observe`. `data` shows what a head matters for, texts what it attends to.
        keep      the share of heads that stays. Unless given it is 0.75, and only a plan that the data support is followed.
        passes    the budget, in forward passes over the texts; `seconds` is one in time; `thorough` has none.
        out       a folder that gets the files that the program writes; `resume` goes on with a study that was stopped there.
        """
        files = _files(treebank=treebank, coreference=coreference, data=data)
        with _shown(progress, "study") as call:
            return Study(_core.study(
                self._core, _texts(texts), files=files, loss=loss, keep=keep, passes=passes, seconds=seconds,
                thorough=thorough, resume=resume, probes=probes, form=form, order=order, seed=seed,
                out="" if out is None else os.fspath(out), progress=call))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes the folder of the model, whole or not at all."""
        self._core.save(os.fspath(folder))


class PrunedModel(Model):
    """A model without some of its heads."""

    @property
    def report(self) -> dict[str, Any]:
        """What was removed, what it was compared with, and what it cost."""
        found: dict[str, Any] = json.loads(self._core.report)
        return found


class ActivationCache:
    """Activations of one text by the names of TransformerLens, computed when they are asked for.

    "blocks.3.hook_resid_pre", "…_resid_post" and "…_attn_out"; "blocks.3.attn.hook_q", "…_k", "…_v", "…_z"
    [1, tokens, heads, width] and "…_pattern" [1, heads, tokens, keys]. Queries and keys that rotate by position are
    "…hook_rot_q" and "…hook_rot_k", as attention reads them; what follows a norm is "…hook_normalized_resid_post".
    `cache["z", 3]` is short for "blocks.3.attn.hook_z". Encoder-decoders have "encoder.3.…" and "decoder.3.…" instead
    of "blocks.3.…", and "decoder.3.cross_attn.hook_z".
    """

    def __init__(self, model: Model, ids: list[int], target: Text | None) -> None:
        self._model, self._ids, self._target = model, ids, target
        self._gates = model._gates
        self._found: dict[str, Floats] = {}
        self._keys = self._known_keys()

    def keys(self) -> list[str]:
        """All names."""
        return list(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __contains__(self, key: object) -> bool:
        return self._full(key) in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    def __reduce__(self) -> Any:
        raise TypeError("an ActivationCache cannot be pickled: take the arrays that you need out of it")

    def __getitem__(self, name: str | tuple[str, int]) -> Floats:
        key = self._full(name)
        if key not in self._keys:
            close = difflib.get_close_matches(str(key), self._keys, 1)
            raise KeyError(f"no activation is called {name!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
        if key not in self._found:
            before, self._model._gates = self._model._gates, self._gates
            try:
                _, found = self._model._run(self._ids, self._target, [self._keys[key]])
            finally:
                self._model._gates = before
            value = found[self._keys[key]]
            if key.endswith("pattern"):
                value = np.ascontiguousarray(value.swapaxes(0, 1))
            self._found[key] = value[None]
        return self._found[key]

    def _full(self, name: object) -> Any:
        """The name in full of ("z", 3); layers count from the end if negative."""
        if not isinstance(name, tuple) or len(name) != 2 or not isinstance(name[1], int):
            return name
        hook, layer = name
        layers = sum(key.endswith(".hook_resid_pre") for key in self._keys)
        block = f"blocks.{layer % layers if -layers <= layer < layers else layer}"
        return next((key for key in (f"{block}.hook_{hook}", f"{block}.attn.hook_{hook}") if key in self._keys), name)

    def _known_keys(self) -> dict[str, str]:
        keys: dict[str, str] = {}
        post = "normalized_resid_post" if self._model._core.is_post_norm else "resid_post"
        prefixes = {"": "blocks", "enc": "encoder", "dec": "decoder", "cross": "decoder"}
        for site, _ in self._model.names.attentions:
            side, _, layer = site.rpartition(".")
            number = int(layer[1:])
            block = f"{prefixes[side]}.{number}"
            kind = "cross_attn" if side == "cross" else "attn"
            for hook in ("q", "k", "v", "z", "pattern"):
                rotated = "rot_" if hook in "qk" and site in self._model._rotary else ""
                keys[f"{block}.{kind}.hook_{rotated}{hook}"] = f"{site}.{hook}"
            keys[f"{block}.hook_{kind}_out"] = f"{site}.attn_out"
            if side == "cross":
                continue
            stack = "encoder" if side == "enc" or (side == "" and self._model._core.is_encoder) else "decoder"
            keys[f"{block}.hook_resid_pre"] = f"{stack}.{number - 1}.resid_post"
            keys[f"{block}.hook_{post}"] = f"{stack}.{number}.resid_post"
        return keys


def _files(**files: str | os.PathLike[str] | None) -> dict[str, str]:
    return {name: os.fspath(file) for name, file in files.items() if file is not None}


def _texts(texts: Iterable[str]) -> list[str]:
    if isinstance(texts, str):
        raise Error("texts: one text where several are expected", got=repr(texts[:40]), expected="a list of texts")
    return [str(text) for text in texts]


@contextmanager
def _shown(progress: Progress, what: str) -> Iterator[Callable[[str, int, int], None] | None]:
    """What is called with progress: the caller's function, or a bar of tqdm."""
    if callable(progress):
        yield progress
        return
    if not progress or not (sys.stderr.isatty() or "ipykernel" in sys.modules):
        yield None
        return
    try:
        import tqdm.auto as bars
    except ImportError:
        yield None
        return
    with bars.tqdm(desc=what, leave=False) as bar:

        def call(part: str, done: int, total: int) -> None:
            bar.set_description_str(f"{what}: {part}")
            bar.total, bar.n = total or None, done
            bar.refresh()

        yield call
