"""Transformers whose layers have lost different heads: the stock classes, with attention of the size that is left.

Written by headwise beside a pruned model. config.json names here what the stock library has no field for: "pruned_heads",
{"0": [1, 3]} by layer or, in encoder-decoders, {"enc.L0": [2], "cross.L1": [0, 1]}. Any stock class of the architecture is
here under its own name: config.json points to them in "auto_map". Works with transformers 4.57 and 5.
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

    def __init__(self, inputs, heads, width, bias, like):
        super().__init__(inputs, heads * width, bias=bias, **like)
        self.width, self.head_of = width, []

    def forward(self, x):
        heads = super().forward(x).unflatten(-1, (-1, self.width))
        return heads[..., self.head_of, :].flatten(-2)


def resized(old, inputs, outputs):
    """A projection like another one, of another size; its weights are still to be loaded."""
    like = {"device": old.weight.device, "dtype": old.weight.dtype}
    if isinstance(old, nn.Linear):
        return nn.Linear(inputs, outputs, bias=old.bias is not None, **like)
    new = type(old)(outputs, inputs)  # Conv1D of GPT-2
    return new.to(**like)


def replace(attention, kept, heads, kv_heads):
    """Gives an attention the projections of the heads that are kept."""
    holder, place = attention.holder, attention.output_holder
    old = getattr(place, attention.output)
    inputs, outputs = (old.in_features, old.out_features) if isinstance(old, nn.Linear) else old.weight.shape
    width = inputs // heads
    setattr(place, attention.output, resized(old, width * len(kept), outputs))
    query = getattr(holder, attention.query)
    if attention.key is None:
        setattr(holder, attention.query, resized(query, outputs, 3 * width * len(kept)))
    else:
        setattr(holder, attention.query, resized(query, query.in_features, width * len(kept)))
        of_kept = [head * kv_heads // heads for head in kept]
        names = sorted(set(of_kept))
        head_of = [names.index(kv) for kv in of_kept]
        groups = len(kept) // max(1, len(names))
        even = head_of == [i // max(1, groups) for i in range(len(kept))]
        for name in (attention.key, attention.value):
            old = getattr(holder, name)
            new = resized(old, old.in_features, width * len(names))
            if not even:
                like = {"device": old.weight.device, "dtype": old.weight.dtype}
                new = GroupedLinear(old.in_features, len(names), width, old.bias is not None, like)
                new.head_of = head_of
            setattr(holder, name, new)
        if hasattr(holder, "num_key_value_groups"):
            holder.num_key_value_groups = groups if even else 1
    sizes = {
        "num_attention_heads": len(kept),
        "num_heads": len(kept),
        "n_heads": len(kept),
        "all_head_size": width * len(kept),
        "inner_dim": width * len(kept),
        "split_size": width * len(kept),
    }
    if isinstance(getattr(holder, "n_heads", None), int) and hasattr(holder, "q_lin"):
        sizes["dim"] = width * len(kept)  # DistilBERT, version 4
    for name, size in sizes.items():
        if hasattr(holder, name):
            setattr(holder, name, size)
    return width


def without_heads(attention, width):
    """An attention that gives its output bias alone: there is nothing to attend with."""
    holder = attention.holder
    stock = inspect.signature(holder.forward).parameters
    kind = type(holder).__name__
    output = None if attention.output_holder is not holder else getattr(holder, attention.output)

    def forward(*given, **named):
        x = given[0] if given else named.get("hidden_states", named.get("query"))
        values = dict(zip(stock, given)) | named
        cache = values.get("past_key_values", values.get("layer_past"))
        cross = values.get("key_value_states") is not None
        if cache is not None and not cross:  # it counts tokens by what layers have put into it
            cache = getattr(cache, "self_attention_cache", cache)
            nothing = x.new_zeros(x.shape[0], 1, x.shape[1], width)
            cache.update(nothing, nothing, holder.layer_idx)
        z = x.new_zeros(*x.shape[:-1], 0)
        if output is not None:
            z = x.new_zeros(x.shape) + output.bias if output.bias is not None else torch.zeros_like(x)
        if kind.startswith("T5"):
            return (z, None, None) if "kwargs" in stock else (z, None)
        if kind.startswith("MPNet") or "output_attentions" in stock and kind.endswith(("SelfAttention", "SdpaAttention")) and "q_lin" in holder._modules:
            return (z,)
        return z, None

    holder.forward = forward


def share_biases(model, kept):
    """T5 adds the biases of all heads in its first layer, MPNet once for all: here every layer takes those of its heads."""
    kind, base = model.config.model_type, model.base_model

    def of_heads(names, position):
        def hook(module, given, named):
            if named.get("position_bias") is not None:
                named["position_bias"] = named["position_bias"][:, names]
            elif len(given) > position and given[position] is not None:
                given = (*given[:position], given[position][:, names], *given[position + 1 :])
            return given, named

        return hook

    if kind == "mpnet":
        for attention in attentions(model):
            position = list(inspect.signature(attention.holder.forward).parameters).index("position_bias")
            hook = of_heads(kept[attention.name], position)
            attention.holder.register_forward_pre_hook(hook, with_kwargs=True)
    if kind != "t5":
        return

    def own(module, given, named):
        named["position_bias"] = None  # those of another layer
        return given, named

    def biases_of(first, names):
        compute = type(first).compute_bias
        return lambda *given, **named: compute(first, *given, **named)[:, names]

    tables = {}  # per stack, the attention that has it
    for attention in attentions(model):
        stack = attention.name.rpartition("L")[0]
        attention.holder.register_forward_pre_hook(own, with_kwargs=True)
        if stack == "cross.":
            continue
        first = tables.setdefault(stack, attention.holder)
        attention.holder.has_relative_attention_bias = True
        attention.holder.compute_bias = biases_of(first, kept[attention.name])


def prune(model, pruned):
    """Leaves in every attention the heads that are not pruned, before weights are loaded."""
    config = model.config
    heads = {"enc.": getattr(config, "encoder_attention_heads", 0), "dec.": getattr(config, "decoder_attention_heads", 0)}
    heads["cross."] = heads["dec."]
    names = {}
    for attention in list(attentions(model)):
        count = heads.get(attention.name.rpartition("L")[0]) or config.num_attention_heads
        number = attention.name[1:] if attention.name[0] == "L" else attention.name
        gone = pruned.get(attention.name, pruned.get(number, pruned.get(int(number) if number.isdigit() else None, [])))
        names[attention.name] = [head for head in range(count) if head not in gone]
        if len(names[attention.name]) == count:
            continue
        kv_heads = getattr(config, "num_key_value_heads", None) or count
        width = replace(attention, names[attention.name], count, kv_heads)
        if not names[attention.name]:
            without_heads(attention, width)
    share_biases(model, names)


def pruned_class(stock):
    def init(self, config, *given, **named):
        pruned = getattr(config, "pruned_heads", None) or {}
        config.pruned_heads = {}  # version 4 would prune by itself
        stock.__init__(self, config, *given, **named)
        config.pruned_heads = self.config.pruned_heads = pruned
        prune(self, pruned)

    # Weights are initialised by the name of the stock class, and saved under it.
    return type(stock.__name__, (stock,), {"__init__": init, "__module__": __name__})


def __getattr__(name):
    stock = getattr(transformers, name, None)
    if not (inspect.isclass(stock) and issubclass(stock, transformers.PreTrainedModel)):
        raise AttributeError(f"no class {name}")
    globals()[name] = pruned_class(stock)
    return globals()[name]
