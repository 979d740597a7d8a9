"""headwise in the LM Evaluation Harness: what transformers gets there, a headwise model gets as well."""

import json

import pytest

pytest.importorskip("torch")
tf = pytest.importorskip("transformers")
pytest.importorskip("lm_eval", reason="the LM Evaluation Harness is not installed")
pytest.importorskip("accelerate", reason="accelerate is not installed, which the transformers models of the harness need")

import lm_eval  # noqa: E402
import torch  # noqa: E402
from lm_eval.api.instance import Instance  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402
from small_model import TEXTS  # noqa: E402

import headwise as hw  # noqa: E402
import headwise.lm_eval  # noqa: E402
from headwise import Error  # noqa: E402


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """The same small GPT-2 in the harness' own class and in ours."""
    from tokenizers import Tokenizer, models, pre_tokenizers, decoders, trainers

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    raw.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=320, special_tokens=["<end>"], initial_alphabet=alphabet))
    tokenizer = tf.PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<end>", eos_token="<end>", pad_token="<end>")
    torch.manual_seed(1)
    config = tf.GPT2Config(n_embd=32, n_head=4, n_layer=2, n_positions=48, vocab_size=len(tokenizer), bos_token_id=0,
                           eos_token_id=0, initializer_range=0.3)
    model = tf.GPT2LMHeadModel(config).eval()
    folder = tmp_path_factory.mktemp("gpt2")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return HFLM(pretrained=model, tokenizer=tokenizer, batch_size=4), headwise.lm_eval.LM(hw.load(folder))


def requests(kind, arguments):
    return [Instance(kind, {}, args, i) for i, args in enumerate(arguments)]


def test_log_likelihoods(pair):
    # One cut for each text: the harness' own class confuses two requests of the same tokens, cut at different places.
    pairs = [(text[:cut], text[cut:]) for text, cut in zip(TEXTS[:6], (0, 7, 16) * 2)] + [("the " * 60, "cat sat")]
    theirs, ours = (lm.loglikelihood(requests("loglikelihood", pairs), disable_tqdm=True) for lm in pair)
    for (a, greedy), (b, also) in zip(theirs, ours, strict=True):
        assert a == pytest.approx(b, abs=2e-3)
        assert greedy == also


def test_log_likelihoods_of_whole_texts(pair):
    texts = [(TEXTS[0],), (" ".join(TEXTS[:8]),)]  # the second is longer than the model's positions
    assert len(pair[1].tok_encode(texts[1][0])) > 100
    theirs, ours = (lm.loglikelihood_rolling(requests("loglikelihood_rolling", texts), disable_tqdm=True) for lm in pair)
    assert ours == pytest.approx(theirs, abs=5e-3)


def test_writing(pair):
    prompts = [(text[:12], {"until": [stop], "max_gen_toks": 20, "do_sample": False}) for text in TEXTS[:4] for stop in "e\n"]
    theirs, ours = (lm.generate_until(requests("generate_until", prompts), disable_tqdm=True) for lm in pair)
    assert ours == theirs
    drawn = [("the cat", {"max_gen_toks": 8, "do_sample": True, "temperature": 0.9, "top_k": 5, "seed": 3})]
    first, second = (pair[1].generate_until(requests("generate_until", drawn), disable_tqdm=True) for _ in range(2))
    assert first == second
    with pytest.raises(Error, match="setting of generation"):
        pair[1].generate_until(requests("generate_until", [("the", {"penalty": 2})]), disable_tqdm=True)


def test_evaluate_with_gates(pair, tmp_path):
    file = tmp_path / "toy.jsonl"
    file.write_text("".join(json.dumps({"text": text[:14], "ends": [text[14:], text[:13:-1]]}) + "\n" for text in TEXTS[:8]))
    task = {
        "task": "toy", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(file)}}, "test_split": "test",
        "output_type": "multiple_choice", "doc_to_text": "{{text}}", "doc_to_choice": "{{ends}}", "doc_to_target": 0,
        "target_delimiter": "",
    }
    found = []
    for lm in pair:
        results = lm_eval.simple_evaluate(model=lm, tasks=[task], verbosity="ERROR", bootstrap_iters=0)
        found.append([sample["resps"] for sample in results["samples"]["toy"]])
    ours = pair[1]
    with ours.model.gates({"L0": 0, "L1.H2": 0}):
        gated = lm_eval.simple_evaluate(model=ours, tasks=[task], verbosity="ERROR", bootstrap_iters=0)
    found.append([sample["resps"] for sample in gated["samples"]["toy"]])
    first = [[[float(part[0][0]) for part in sample] for sample in one] for one in found]
    for theirs, own, other in zip(*first, strict=True):
        assert own == pytest.approx(theirs, abs=2e-3)
        assert abs(other[0] - own[0]) > 1e-2


def test_what_cannot_be_evaluated(tmp_path):
    import small_model

    with pytest.raises(Error, match="causal language models"):
        headwise.lm_eval.LM(hw.load(small_model.make(tmp_path / "bert")))
    with pytest.raises(Error, match="cannot evaluate"):
        headwise.lm_eval.LM("gpt2")
