"""The encoders: BERT, RoBERTa, XLM-R, DistilBERT, ELECTRA, MPNet."""

from __future__ import annotations

from typing import Any

import torch
import transformers as hf

import folders
from cases import Case, task

SMALL = dict(vocab_size=33, hidden_size=16, num_hidden_layers=1, intermediate_size=21)


def bert(kind: type = hf.BertConfig, **changes: Any) -> hf.PreTrainedConfig:
    settings: dict[str, Any] = dict(
        vocab_size=70,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=37,
        hidden_act="gelu",
        max_position_embeddings=19,
        type_vocab_size=2,
        layer_norm_eps=3e-6,
        pad_token_id=0,
    )
    return kind(**settings | changes)


def roberta(kind: type = hf.RobertaConfig, **changes: Any) -> hf.PreTrainedConfig:
    special = dict(pad_token_id=1, bos_token_id=0, eos_token_id=2, type_vocab_size=1, layer_norm_eps=2e-5)
    return bert(kind, **special | changes)


def electra(**changes: Any) -> hf.PreTrainedConfig:
    return bert(hf.ElectraConfig, **dict(embedding_size=18, layer_norm_eps=1e-4) | changes)


def mpnet(**changes: Any) -> hf.PreTrainedConfig:
    settings: dict[str, Any] = dict(
        vocab_size=70,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=37,
        hidden_act="gelu",
        max_position_embeddings=21,
        layer_norm_eps=3e-6,
    )
    return hf.MPNetConfig(**settings | changes)


def distilbert(**changes: Any) -> hf.PreTrainedConfig:
    settings: dict[str, Any] = dict(
        vocab_size=67, dim=32, n_layers=2, n_heads=4, hidden_dim=42, activation="gelu", max_position_embeddings=17
    )
    return hf.DistilBertConfig(**settings | changes)


def architectures() -> list[Case]:
    whole = dict(gated=True, pruned=True)
    return [
        Case("bert", hf.BertForMaskedLM, bert(), **whole),
        Case("roberta", hf.RobertaForMaskedLM, roberta(num_hidden_layers=2, hidden_act="gelu_new"), seed=2, **whole),
        Case(
            "xlm_roberta",
            hf.XLMRobertaForMaskedLM,
            roberta(hf.XLMRobertaConfig, num_hidden_layers=2),
            seed=3,
            **whole,
        ),
        Case("distilbert", hf.DistilBertForMaskedLM, distilbert(), seed=4, **whole),
        Case("electra", hf.ElectraForMaskedLM, electra(num_hidden_layers=2), seed=5, **whole),
        Case("mpnet", hf.MPNetForMaskedLM, mpnet(), seed=6, **whole),
    ]


def plain() -> list[Case]:
    return [
        task("bert_plain", hf.BertModel, bert(**SMALL, hidden_act="relu")),
        task("roberta_plain", hf.RobertaModel, roberta(**SMALL)),
        task(
            "distilbert_plain", hf.DistilBertModel, distilbert(dim=16, n_layers=1, hidden_dim=21, activation="relu")
        ),
        task("electra_plain", hf.ElectraModel, electra(**SMALL)),
        task("electra_equal_widths", hf.ElectraModel, electra(**SMALL | dict(embedding_size=16))),
        task("mpnet_plain", hf.MPNetModel, mpnet(**SMALL, hidden_act="relu")),
        task("bert_half", hf.BertModel, bert(**SMALL), dtype=torch.float16),
    ]


def tasks() -> list[Case]:
    regression = dict(num_labels=1, problem_type="regression")
    small_distilbert = dict(vocab_size=33, dim=16, n_layers=1, hidden_dim=21)
    return [
        task("bert_sequence", hf.BertForSequenceClassification, bert(**SMALL, num_labels=3)),
        task("bert_regression", hf.BertForSequenceClassification, bert(**SMALL, **regression)),
        task(
            "bert_multi_label",
            hf.BertForSequenceClassification,
            bert(**SMALL, num_labels=4, problem_type="multi_label_classification"),
        ),
        task("bert_token", hf.BertForTokenClassification, bert(**SMALL, num_labels=5)),
        task("bert_question", hf.BertForQuestionAnswering, bert(**SMALL)),
        task("bert_next_sentence", hf.BertForNextSentencePrediction, bert(**SMALL)),
        task("bert_pretraining", hf.BertForPreTraining, bert(**SMALL)),
        task("roberta_sequence", hf.RobertaForSequenceClassification, roberta(**SMALL, num_labels=3)),
        task("roberta_token", hf.RobertaForTokenClassification, roberta(**SMALL, num_labels=5)),
        task("roberta_question", hf.RobertaForQuestionAnswering, roberta(**SMALL)),
        task(
            "xlm_roberta_regression",
            hf.XLMRobertaForSequenceClassification,
            roberta(hf.XLMRobertaConfig, **SMALL, **regression),
        ),
        task(
            "distilbert_sequence",
            hf.DistilBertForSequenceClassification,
            distilbert(**small_distilbert, num_labels=2),
        ),
        task("distilbert_token", hf.DistilBertForTokenClassification, distilbert(**small_distilbert, num_labels=5)),
        task("distilbert_question", hf.DistilBertForQuestionAnswering, distilbert(**small_distilbert)),
        task("electra_discriminator", hf.ElectraForPreTraining, electra(**SMALL)),
        task("electra_sequence", hf.ElectraForSequenceClassification, electra(**SMALL, num_labels=3)),
        task("electra_token", hf.ElectraForTokenClassification, electra(**SMALL, num_labels=5)),
        task("electra_question", hf.ElectraForQuestionAnswering, electra(**SMALL)),
        task("mpnet_sequence", hf.MPNetForSequenceClassification, mpnet(**SMALL, num_labels=3)),
        task("mpnet_token", hf.MPNetForTokenClassification, mpnet(**SMALL, num_labels=5)),
        task("mpnet_question", hf.MPNetForQuestionAnswering, mpnet(**SMALL)),
    ]


def as_found() -> list[Case]:
    return [
        task("bert_of_2018", hf.BertForMaskedLM, bert(**SMALL), rewrite=folders.tensors(folders.bert_of_2018)),
        task(
            "roberta_with_copies",
            hf.RobertaForMaskedLM,
            roberta(**SMALL),
            rewrite=folders.tensors(folders.roberta_with_copies),
        ),
        task("bert_untied", hf.BertForMaskedLM, bert(**SMALL, tie_word_embeddings=False)),
    ]


def cases() -> list[Case]:
    return architectures() + plain() + tasks() + as_found()
