"""attn_implementation="headwise": what transformers calls for every attention and for every mask."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from headwise.attention import HeadStatistics
from headwise.errors import Error
from headwise.torch.function import Options, attention_rows
from headwise.torch.masks import UNLIMITED, Mask, Structure, dense_bias, read_mask, whole
from headwise.torch.plain import plain_attention, plain_weights
from headwise.torch.state import AttentionState, state_of

_FLOATS = (torch.float32, torch.bfloat16, torch.float16)

# Keyword arguments of models that do not change what attention computes, or that the mask already holds.
_HARMLESS = frozenset(
    "cache_position deterministic encoder_attention_mask encoder_hidden_states inputs_embeds input_ids labels "
    "logits_to_keep max_length_k max_length_q num_items_in_batch output_attentions output_hidden_states "
    "output_router_logits past_key_values position_embeddings position_ids return_dict token_type_ids use_cache".split()
)

_force_plain = False  # for tests of the path for other devices


def register(name: str = "headwise") -> None:
    """Makes `attn_implementation=name` known to transformers: the attention and the masks that it reads.

    A name registered for attention alone gets no masks from transformers, and models then attend to padding and to the
    future. So both are registered.
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, make_mask)


def make_mask(*args: Any, **options: Any) -> torch.Tensor:
    """Booleans [B, 1, N, M] for every mask: none is left out, so that no mask is taken for no mask."""
    from transformers.masking_utils import sdpa_mask

    options.update(allow_is_causal_skip=False, allow_is_bidirectional_skip=False)
    mask: torch.Tensor = sdpa_mask(*args, **options)
    return mask


def attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    softcap: float | None = None,
    sliding_window: int | None = None,
    position_bias: torch.Tensor | None = None,
    s_aux: torch.Tensor | None = None,
    cu_seq_lens_q: torch.Tensor | None = None,
    cu_seq_lens_k: torch.Tensor | None = None,
    **others: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Attention of q [B, H, N, D], k [B, K, M, D] and v [B, K, M, Dv]; the output is [B, N, H, Dv]."""
    _check(module, query, others)
    batch = max(query.shape[0], key.shape[0])
    query, key, value = (x.expand(batch, -1, -1, -1) for x in (query, key, value))
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    if attention_mask is not None:
        mask = read_mask(attention_mask, batch, key.shape[2], is_causal)
    elif cu_seq_lens_q is not None:
        mask = Mask(None, None, _packed(cu_seq_lens_q, cu_seq_lens_k, batch, is_causal, sliding_window))
    else:
        mask = Mask(None, None, _unmasked(query, key, is_causal, sliding_window))
    structure, bias = _combine(mask, position_bias, query, key)
    state = state_of(module) or AttentionState()
    options = Options(
        structure=structure,
        scale=scaling if scaling is not None else query.shape[3] ** -0.5,
        softcap=softcap or 0.0,
        dropout=dropout,
        seed=int(torch.randint(2**63 - 1, ())) if dropout > 0 else 0,
        observe=bool(state.statistics),
        cross=state.cross,
    )
    sinks = None if s_aux is None else s_aux.float()
    gates = None if state.gates is None else _gates(state.gates, batch, query)
    q, k, v = query.float(), key.float(), value.float()
    if query.device.type != "cpu" or _force_plain:
        out, sums = plain_attention(q, k, v, options, bias=bias, sinks=sinks, gates=gates)
    else:
        rows, sums = attention_rows(_rows(q), _rows(k), _rows(v), options, bias=bias, sinks=sinks, gates=gates)
        out = rows.view(batch, query.shape[2], query.shape[1], value.shape[3])
    weights = _tell(state, sums, q, k, options, bias, sinks, bool(others.get("output_attentions")))
    for hook in state.z_hooks:
        changed = hook(out)
        out = out if changed is None else changed
    return out.to(query.dtype), None if weights is None else weights.to(query.dtype)


def _check(module: torch.nn.Module, query: torch.Tensor, others: dict[str, Any]) -> None:
    unknown = [name for name, value in others.items() if name not in _HARMLESS and value is not None]
    if unknown:
        raise Error(f"attention: {type(module).__name__} passes an argument that headwise does not support",
                    got=", ".join(unknown), expected="an attention without it",
                    hint='Load the model with attn_implementation="eager".')
    if query.dtype not in _FLOATS:
        raise Error("attention: unsupported type of numbers", got=str(query.dtype),
                    expected="float32, bfloat16 or float16")


def _unmasked(query: torch.Tensor, key: torch.Tensor, causal: bool, window: int | None) -> Structure:
    """Without a mask, rows see every key; of a causal model with several rows, those up to their own."""
    (batch, _, rows, _), keys = query.shape, key.shape[2]
    if window is not None and window < keys:
        raise Error("attention: a sliding window without a mask", got=f"a window of {window}", expected="a mask",
                    hint="Register the masks too: headwise.torch.register().")
    if causal and rows > 1 and rows != keys:
        raise Error("attention: a causal model passes no mask, and more keys than rows", got=f"{rows} rows, {keys} keys",
                    expected="a mask")
    return whole(batch, rows, keys, causal and rows > 1)


def _packed(q: torch.Tensor, k: torch.Tensor | None, batch: int, causal: bool, window: int | None) -> Structure:
    """Sequences one after the other in one text, cut at these offsets."""
    if batch != 1:
        raise Error("attention: packed sequences in a batch", got=f"{batch} texts", expected="one")
    q_offsets = q.detach().cpu().numpy().astype(np.int64)
    k_offsets = q_offsets if k is None else k.detach().cpu().numpy().astype(np.int64)
    return Structure(q_offsets, k_offsets, np.diff(k_offsets), right=0 if causal else UNLIMITED,
                     left=UNLIMITED if window is None else window - 1, is_batch=False)


def _combine(
    mask: Mask, position_bias: torch.Tensor | None, query: torch.Tensor, key: torch.Tensor
) -> tuple[Structure, torch.Tensor | None]:
    """The structure of the problem and its bias [B, H, N, M], if it has one."""
    (batch, heads, rows, _), keys = query.shape, key.shape[2]
    shape = (batch, heads, rows, keys)
    bias = None if position_bias is None else _keys_together(position_bias[..., :keys].float()).expand(shape)
    if mask.structure is not None and (bias is None or mask.structure.is_batch):
        return mask.structure, bias
    if mask.structure is not None and mask.seen is None:
        raise Error("attention: packed sequences with a position bias", got="cu_seq_lens_q and position_bias",
                    expected="one of them")
    masked = mask.bias if mask.seen is None else dense_bias(mask.seen)
    assert masked is not None
    bias = _keys_together(masked).expand(shape) if bias is None else bias + masked
    return whole(batch, rows, keys, False), bias


def _keys_together(bias: torch.Tensor) -> torch.Tensor:
    return bias if bias.stride(3) == 1 else bias.contiguous()


def _gates(gates: torch.Tensor, batch: int, query: torch.Tensor) -> torch.Tensor:
    gates = (gates if gates.ndim == 2 else gates[None]).to(query.device, torch.float32)
    if gates.shape[0] not in (1, batch):
        raise Error("gates: not one row for each text", got=str(list(gates.shape)), expected=f"{batch} rows")
    return gates


def _rows(x: torch.Tensor) -> torch.Tensor:
    """[B, H, N, D] as [B * N, H, D], without a copy where the layout allows."""
    return x.transpose(1, 2).reshape(-1, x.shape[1], x.shape[3])


def _tell(
    state: AttentionState,
    sums: dict[str, Any],
    query: torch.Tensor,
    key: torch.Tensor,
    options: Options,
    bias: torch.Tensor | None,
    sinks: torch.Tensor | None,
    all_maps: bool,
) -> torch.Tensor | None:
    """Hands out statistics and maps. Returns all maps if asked for."""
    for statistics in state.statistics:
        statistics += HeadStatistics(sums)
    if not state.maps and not all_maps:
        return None
    with torch.set_grad_enabled(all_maps and torch.is_grad_enabled()):
        weights = plain_weights(query, key, options, bias=bias, sinks=sinks)
    for heads, maps in state.maps:
        maps.append(weights[:, heads].detach())
    return weights if all_maps else None
