"""Transformers whose layers have lost different heads: the stock classes, with attention of the size that is left.

Written by headwise beside a pruned model. config.json names here what the stock library has no field for: "pruned_heads",
{"0": [1, 3]} by layer or, in encoder-decoders, {"enc.L0": [2], "cross.L1": [0, 1]}. Any stock class of the architecture is
here under its own name: config.json points to them in "auto_map". Works with
transformers 5; folders of encoder-decoders are refused by version 4, which reads pruned_heads by number.
"""

import inspect

import torch
import transformers
from torch import nn


class Attention:
    """One attention of a model: the module that holds its projections, and what these are called."""

    def __init__(self, name, holder, query, key, value, output, output_holder=None):
        self.name, self.holder = name, holder
        self.query, self.key, self.value, self.output = query, key, value, output
        self.output_holder = output_holder or holder


def attentions(model):
    """All attentions of a model, by the names that headwise gives them."""
    kind, base = model.config.model_type, model.base_model
    if kind in ("bert", "roberta", "xlm-roberta", "electra"):
        for i, layer in enumerate(base.encoder.layer):
            part = layer.attention
            yield Attention(f"L{i}", part.self, "query", "key", "value", "dense", part.output)
    elif kind == "mpnet":
        for i, layer in enumerate(base.encoder.layer):
            yield Attention(f"L{i}", layer.attention.attn, "q", "k", "v", "o")
    elif kind == "distilbert":
        for i, layer in enumerate(base.transformer.layer):
            yield Attention(f"L{i}", layer.attention, "q_lin", "k_lin", "v_lin", "out_lin")
    elif kind == "gpt2":
        for i, layer in enumerate(base.h):
            yield Attention(f"L{i}", layer.attn, "c_attn", None, None, "c_proj")
    elif kind == "gpt_neox":
        for i, layer in enumerate(base.layers):
            yield Attention(f"L{i}", layer.attention, "query_key_value", None, None, "dense")
    elif kind == "marian":
        for i, layer in enumerate(base.encoder.layers):
            yield Attention(f"enc.L{i}", layer.self_attn, "q_proj", "k_proj", "v_proj", "out_proj")
        for i, layer in enumerate(base.decoder.layers):
            yield Attention(f"dec.L{i}", layer.self_attn, "q_proj", "k_proj", "v_proj", "out_proj")
            yield Attention(f"cross.L{i}", layer.encoder_attn, "q_proj", "k_proj", "v_proj", "out_proj")
    elif kind == "t5":
        two = hasattr(base, "decoder")
        for i, block in enumerate(base.encoder.block):
            yield Attention(f"{'enc.' if two else ''}L{i}", block.layer[0].SelfAttention, "q", "k", "v", "o")
        for i, block in enumerate(base.decoder.block if two else []):
            yield Attention(f"dec.L{i}", block.layer[0].SelfAttention, "q", "k", "v", "o")
            yield Attention(f"cross.L{i}", block.layer[1].EncDecAttention, "q", "k", "v", "o")
    else:  # llama, mistral, qwen2, qwen3, smollm3
        for i, layer in enumerate(base.layers):
            yield Attention(f"L{i}", layer.self_attn, "q_proj", "k_proj", "v_proj", "o_proj")


class GroupedLinear(nn.Linear):
    """Keys or values of groups of unequal size: every query head gets its own copy."""

    def __init__(self, inputs, outputs, width, head_of, **like):
        super().__init__(inputs, outputs, **like)
        self.width, self.head_of = width, head_of

    def forward(self, x):
        heads = super().forward(x).unflatten(-1, (-1, self.width))
        return heads[..., self.head_of, :].flatten(-2)


def how(old):
    return {"device": old.weight.device, "dtype": old.weight.dtype}


def resized(old, inputs, outputs):
    """A projection like another one, of another size; its weights are still to be loaded."""
    if isinstance(old, nn.Linear):
        return nn.Linear(inputs, outputs, bias=old.bias is not None, **how(old))
    return type(old)(outputs, inputs).to(**how(old))  # Conv1D of GPT-2


def resize_keys(attention, of_kept, width):
    """Keys and values of the query heads that are kept, of_kept being the key/value head of each."""
    holder, names = attention.holder, sorted(set(of_kept))
    head_of = [names.index(kv) for kv in of_kept]
    group = max(1, len(of_kept) // max(1, len(names)))
    even = head_of == [i // group for i in range(len(of_kept))]
    for name in (attention.key, attention.value):
        old = getattr(holder, name)
        new = resized(old, old.in_features, width * len(names))
        if not even:
            bias = old.bias is not None
            new = GroupedLinear(new.in_features, new.out_features, width, head_of, bias=bias, **how(old))
        setattr(holder, name, new)
    if hasattr(holder, "num_key_value_groups"):
        holder.num_key_value_groups = group if even else 1


def resize(attention, kept, heads, kv_heads):
    """Gives an attention the projections of the heads that are kept; returns the width of a head."""
    holder, place = attention.holder, attention.output_holder
    old = getattr(place, attention.output)
    inputs, outputs = (old.in_features, old.out_features) if isinstance(old, nn.Linear) else old.weight.shape
    width = inputs // heads
    setattr(place, attention.output, resized(old, width * len(kept), outputs))
    query, parts = getattr(holder, attention.query), 3 if attention.key is None else 1
    setattr(holder, attention.query, resized(query, outputs, parts * width * len(kept)))
    if attention.key is not None:
        resize_keys(attention, [head * kv_heads // heads for head in kept], width)
    for name in ("num_attention_heads", "num_heads", "n_heads"):
        if hasattr(holder, name):
            setattr(holder, name, len(kept))
    widths = ("all_head_size", "inner_dim", "split_size") + (("dim",) if hasattr(holder, "q_lin") else ())
    for name in widths:
        if hasattr(holder, name):
            setattr(holder, name, width * len(kept))
    return width


class WithoutHeads:
    """An attention that gives its output bias alone: there is nothing to attend with."""

    def forward(self, *given, **named):
        names, output, width, rest = self.headless
        named = dict(zip(names, given)) | named
        x = named.get("hidden_states", named.get("query"))
        cache = named.get("past_key_values", named.get("layer_past"))
        if cache is not None and named.get("key_value_states") is None:
            # It counts tokens by what layers have put into it.
            cache = getattr(cache, "self_attention_cache", cache)
            nothing = x.new_zeros(x.shape[0], 1, x.shape[1], width)
            cache.update(nothing, nothing, self.layer_idx)
        if output is None:  # the projection is called by another module
            return x.new_zeros(*x.shape[:-1], 0), *rest
        bias = getattr(self, output).bias
        return torch.zeros_like(x) + (0 if bias is None else bias), *rest


class OwnBiasOfMPNet:
    """MPNet computes the biases of all heads once: every layer takes those of its heads."""

    def forward(self, *given, **named):
        named = dict(zip(self.parameter_names, given)) | named
        if named.get("position_bias") is not None:
            named["position_bias"] = named["position_bias"][:, self.kept_heads]
        return super().forward(**named)


class OwnBiasOfT5:
    """T5 computes biases in its first layer: here every layer computes those of its heads, from the same table."""

    def compute_bias(self, *given, **named):
        return super().compute_bias(*given, **named)[:, self.kept_heads]

    def forward(self, *given, **named):
        named = dict(zip(self.parameter_names, given)) | named
        named["position_bias"] = None  # that of another layer
        return super().forward(**named)


def parameter_names(module):
    return list(inspect.signature(module.forward).parameters)


def become(module, kind, **attributes):
    module.__dict__.update(attributes)  # modules among them stay where they are registered
    module.__class__ = type(type(module).__name__, (kind, type(module)), {})


def remove_attention(attention, width, kind):
    holder = attention.holder
    names = parameter_names(holder)
    # What it returns beside its output: weights, and in T5 biases.
    rest = (None,) if kind not in ("mpnet", "distilbert") or "output_attentions" not in names else ()
    if kind == "t5" and "kwargs" in names:
        rest = (None, None)
    output = attention.output if attention.output_holder is holder else None
    become(holder, WithoutHeads, headless=(names, output, width, rest))


def share_biases(model, kept):
    kind, tables = model.config.model_type, {}  # per stack, the table that its first layer has
    for attention in attentions(model) if kind in ("t5", "mpnet") else []:
        holder, stack = attention.holder, attention.name.rpartition("L")[0]
        own = {"kept_heads": kept[attention.name], "parameter_names": parameter_names(holder)}
        if kind == "t5" and stack != "cross.":
            table = tables.setdefault(stack, getattr(holder, "relative_attention_bias", None))
            own["has_relative_attention_bias"] = True
            if "relative_attention_bias" not in holder._modules:
                own["relative_attention_bias"] = table
        if kept[attention.name]:
            become(holder, OwnBiasOfT5 if kind == "t5" else OwnBiasOfMPNet, **own)


def prune(model, pruned):
    """Leaves in every attention the heads that are not pruned, before weights are loaded."""
    config = model.config
    pruned = {str(name).removeprefix("L"): heads for name, heads in pruned.items()}
    names = {}
    for attention in list(attentions(model)):
        own = "encoder_attention_heads" if attention.name.startswith("enc.") else "decoder_attention_heads"
        count = getattr(config, own, config.num_attention_heads)
        gone = pruned.get(attention.name.removeprefix("L"), [])
        names[attention.name] = [head for head in range(count) if head not in gone]
        if len(names[attention.name]) == count:
            continue
        kv_heads = getattr(config, "num_key_value_heads", None) or count
        width = resize(attention, names[attention.name], count, kv_heads)
        if not names[attention.name]:
            remove_attention(attention, width, config.model_type)
    share_biases(model, names)


def pruned_class(stock):
    def init(self, config, *given, **named):
        pruned = getattr(config, "pruned_heads", None) or {}
        config.pruned_heads = {}  # version 4 would prune by itself
        stock.__init__(self, config, *given, **named)
        config.pruned_heads = self.config.pruned_heads = pruned
        prune(self, pruned)

    # Under its stock name it is saved as one; and tensors have the names of the stock class, older ones as well.
    own = {"__init__": init, "__module__": __name__, "is_custom_code": classmethod(lambda cls: False)}
    return type(stock.__name__, (stock,), own)


def __getattr__(name):
    stock = getattr(transformers, name, None)
    if not (inspect.isclass(stock) and issubclass(stock, transformers.PreTrainedModel)):
        raise AttributeError(f"no class {name}")
    globals()[name] = pruned_class(stock)
    return globals()[name]
