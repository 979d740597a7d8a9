"""headwise inside transformers models: fast attention with gates and statistics for every head.

    import headwise.torch
    headwise.torch.register()
    model = AutoModel.from_pretrained(..., attn_implementation="headwise")
    heads = headwise.torch.Heads(model)
    with heads.gates({"L3.H1": 0}):
        model(**inputs)
"""

from headwise.torch.interface import register
from headwise.torch.model import Head, Heads

__all__ = ["Head", "Heads", "register"]
