"""headwise in transformers models: equal to eager attention, with gates, statistics, maps and gradients by head."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import headwise.torch  # noqa: E402
from headwise import Error  # noqa: E402
from headwise.torch import interface  # noqa: E402
from torch_models import CAUSAL, CONFIGS, ENCODERS, inputs, logits, make, real_rows  # noqa: E402

headwise.torch.register()
CLOSE = 1e-5

FAMILIES = list(CONFIGS)
PADDED = [family for family in FAMILIES if family not in ("vit", "whisper")]
CASES = [(family, padding) for family in FAMILIES for padding in (None, "left", "right") if not padding or family in PADDED]
# Encoder-decoders have no static cache here.
CACHES = [(family, cache) for family in CAUSAL for cache in (None, "static")] + [("t5", None), ("whisper", None)]


@pytest.fixture(params=["kernel", "plain"], autouse=True)
def path(request, monkeypatch):
    monkeypatch.setattr(interface, "_force_plain", request.param == "plain")
    return request.param


def close(a, b, tolerance=CLOSE):
    scale = max(1.0, float(b.abs().max()))
    assert float((a - b).abs().max()) <= tolerance * scale


def gradients(model, given):
    model.zero_grad()
    found = logits(model(**given))
    rows = real_rows(model.config.model_type, given)
    loss = (found if rows is None else found[rows]).pow(2).mean()
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(("family", "padding"), CASES)
def test_equals_eager(family, padding):
    given = inputs(family, padding)
    with torch.no_grad():
        eager, ours = (logits(make(family, name)(**given)) for name in ("eager", "headwise"))
    rows = real_rows(family, given)
    close(*((ours, eager) if rows is None else (ours[rows], eager[rows])))


@pytest.mark.parametrize(("family", "padding"), CASES)
def test_gradients_equal_eager(family, padding):
    given = inputs(family, padding)
    eager, ours = (gradients(make(family, name), given) for name in ("eager", "headwise"))
    assert ours.keys() == eager.keys()
    largest = max(float(g.abs().max()) for g in eager.values())
    for name, gradient in eager.items():
        assert float((ours[name] - gradient).abs().max()) <= 1e-5 * largest, name


@pytest.mark.parametrize("family", PADDED)
def test_a_mask_that_is_ignored_would_show(family):
    """The trap: without the mask, the result is another."""
    given = inputs(family, "left" if family in CAUSAL else "right")
    rows = real_rows(family, given)
    model = make(family, "headwise")
    with torch.no_grad():
        masked = logits(model(**given))
        ignored = logits(model(**{**given, "attention_mask": torch.ones_like(given["attention_mask"])}))
    difference = (masked - ignored).abs()
    assert float((difference if rows is None else difference[rows]).max()) > 1e-3


@pytest.mark.parametrize("family", CAUSAL + ["t5", "whisper"])
def test_the_future_does_not_show(family):
    """The trap: with the causal mask ignored, a later token changes earlier logits."""
    given = inputs(family)
    name = "decoder_input_ids" if "decoder_input_ids" in given else "input_ids"
    changed = dict(given)
    changed[name] = given[name].clone()
    changed[name][:, -1] = (changed[name][:, -1] + 1) % 90 + 3
    model = make(family, "headwise")
    with torch.no_grad():
        before, after = logits(model(**given)), logits(model(**changed))
    close(after[:, :-1], before[:, :-1])
    assert float((after[:, -1] - before[:, -1]).abs().max()) > 1e-3


@pytest.mark.parametrize("family", ["mistral", "gemma2", "gpt_oss"])
def test_windows_end(family):
    """The trap: with the window ignored, far tokens change near ones in the first layer."""
    given = inputs(family)
    model = make(family, "headwise")
    heads = headwise.torch.Heads(model)
    with torch.no_grad(), heads.maps("all") as maps:
        model(**given)
    windowed = [name for name, runs in maps.items() if float(runs[0][:, -1, 0].abs().max()) == 0]
    assert windowed and (family == "mistral" or len(windowed) < len(maps))


@pytest.mark.parametrize("family", ["llama", "mistral", "gpt2", "gpt_oss"])
def test_packed_sequences(family):
    ids = inputs(family)["input_ids"][:1]
    positions = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4, 0, 1, 2]])
    with torch.no_grad():
        eager, ours = (
            logits(make(family, name)(input_ids=ids, position_ids=positions, use_cache=False)) for name in ("eager", "headwise")
        )
        plain = logits(make(family, "headwise")(input_ids=ids, use_cache=False))
    close(ours, eager)
    assert float((plain - ours).abs().max()) > 1e-3


@pytest.mark.parametrize(("family", "cache"), CACHES)
def test_generate(family, cache):
    given = inputs(family, "left" if family in CAUSAL else None)
    given.pop("decoder_input_ids", None)
    options = dict(max_new_tokens=8, do_sample=False, pad_token_id=0, eos_token_id=None)
    if cache:
        options["cache_implementation"] = cache
        options["disable_compile"] = True
    texts = [make(family, name).generate(**given, **options) for name in ("eager", "headwise")]
    assert texts[0].tolist() == texts[1].tolist()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype):
    given = inputs("llama", "left")
    rows = real_rows("llama", given)
    with torch.no_grad():
        exact = logits(make("llama", "eager")(**given))[rows]
        ours = logits(make("llama", "headwise").to(dtype)(**given))
        eager = logits(make("llama", "eager").to(dtype)(**given))
    assert ours.dtype == dtype
    error = (ours[rows].float() - exact).abs().mean()
    assert error <= 1.2 * (eager[rows].float() - exact).abs().mean()


def test_a_dense_mask_of_a_structure_is_taken_as_one():
    given = inputs("llama")
    index = torch.arange(12)
    causal = (index[None] <= index[:, None])[None, None].expand(3, 1, -1, -1)
    odd = causal & ((index[None] % 3 == 0) | (index[None] == index[:, None]))
    model, eager = make("llama", "headwise"), make("llama", "eager")
    with torch.no_grad():
        plain = logits(model(**given))
        close(logits(model(**given, attention_mask=causal)), plain)
        for mask in (causal, odd):
            additive = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
            expected = logits(eager(**given, attention_mask=additive))
            close(logits(model(**given, attention_mask=mask)), expected)
            close(logits(model(**given, attention_mask=additive)), expected)
        slope = torch.randn(3, 1, 12, 12, generator=torch.Generator().manual_seed(1)) + additive
        close(logits(model(**given, attention_mask=slope)), logits(eager(**given, attention_mask=slope)))


def test_dropout_is_drawn_and_repeated():
    model = make("bert", "headwise").train()
    given = inputs("bert")
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(logits(model(**given)))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])


def test_unknown_arguments_are_refused():
    q = torch.randn(1, 2, 4, 8)
    with pytest.raises(Error) as caught:
        interface.attention_forward(torch.nn.Identity(), q, q, q, None, indices=torch.zeros(1))
    assert caught.value.got == "indices"
    with pytest.raises(Error, match="numbers"):
        interface.attention_forward(torch.nn.Identity(), *[q.double()] * 3, None)
    with pytest.raises(Error, match="no mask"):
        interface.attention_forward(torch.nn.Identity(), q[:, :, 2:], q, q, None)
    with pytest.raises(Error, match="window"):
        interface.attention_forward(torch.nn.Identity(), q, q, q, None, sliding_window=2)
    with pytest.raises(Error, match="mask of integers"):
        interface.attention_forward(torch.nn.Identity(), q, q, q, torch.ones(1, 1, 4, 4, dtype=torch.long))
    with pytest.raises(Error, match="shape of the mask"):
        interface.attention_forward(torch.nn.Identity(), q, q, q, torch.ones(2, 1, 4, 3, dtype=torch.bool))


# Heads


@pytest.mark.parametrize(
    ("family", "names"),
    [
        ("bert", ["L0.H0", "L1.H3"]),
        ("gpt2", ["L0.H0", "L1.H3"]),
        ("t5", ["enc.L0.H0", "cross.L1.H3"]),
        ("whisper", ["enc.L0.H0", "cross.L1.H3"]),
        ("vit", ["L0.H0", "L1.H3"]),
    ],
)
def test_names(family, names):
    heads = headwise.torch.Heads(make(family, "headwise"))
    found = heads.names.names()
    assert [found[0], found[-1]] == names
    assert len(heads) == len(found) == (24 if family in ("t5", "whisper") else 8)
    assert [head.name for head in heads] == found


def test_names_of_an_encoder_alone():
    import transformers

    config = CONFIGS["t5"]()
    config._attn_implementation = "headwise"
    heads = headwise.torch.Heads(transformers.T5EncoderModel(config))
    assert heads.names.names()[0] == "L0.H0"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_gate_of_zero_equals_zero_weights_of_the_output(family):
    """The head's columns of the output projection are the slice that counts."""
    given = inputs(family)
    model = make(family, "headwise")
    heads = headwise.torch.Heads(model)
    target = heads.names.names()[1]
    with torch.no_grad():
        before = logits(model(**given))
        with heads.gates({target: 0}):
            gated = logits(model(**given))
            with heads.gates({target: 1, heads.names.names()[2]: 1}):
                assert torch.equal(logits(model(**given)), gated)
        assert torch.equal(logits(model(**given)), before)
        with heads.ablate(target):
            assert torch.equal(logits(model(**given)), gated)
        with heads.outputs() as z:
            model(**given)
        width = z[target].shape[-1]
        projection = output_projection(model, next(iter(heads.modules.values())))
        weight = projection.weight
        if type(projection).__name__ == "Conv1D":
            weight[width : 2 * width] = 0
        else:
            weight[:, width : 2 * width] = 0
        close(logits(model(**given)), gated)
    assert float((gated - before).abs().max()) > 1e-4


def output_projection(model, module):
    for name in ("o_proj", "out_proj", "c_proj", "Wo", "o"):
        if hasattr(module, name):
            return getattr(module, name)
    path = next(path for path, other in model.named_modules() if other is module)
    return model.get_submodule(path.rpartition(".")[0]).output.dense  # BERT has it beside the attention


def test_gate_gradients_equal_finite_differences():
    given = inputs("llama", "left")
    rows = real_rows("llama", given)
    model = make("llama", "headwise")
    heads = headwise.torch.Heads(model)

    def loss(gates):
        with heads.gates(gates):
            return logits(model(**given))[rows].pow(2).mean()

    gates = torch.tensor([[1.0, 0.0, 0.7, 1.0], [0.5, 1.0, 1.0, 0.0]], requires_grad=True)
    loss(gates).backward()
    for site in range(2):
        for head in range(4):
            step = torch.zeros(2, 4)
            step[site, head] = 0.01
            with torch.no_grad():
                slope = (loss(gates + step) - loss(gates - step)) / 0.02
            assert float(gates.grad[site, head]) == pytest.approx(float(slope), rel=2e-2, abs=2e-4)


def test_mean_and_resampled_ablation():
    given = inputs("bert", "right")
    model = make("bert", "headwise")
    heads = headwise.torch.Heads(model)
    with torch.no_grad():
        with heads.mean_outputs(given["attention_mask"]) as means, heads.outputs() as z:
            model(**given)
        real = given["attention_mask"].bool()
        close(means["L1.H2"], z["L1.H2"][real].mean(0))
        with heads.ablate("L1.H2", "mean", means=means), heads.outputs() as ablated:
            model(**given)
        close(ablated["L1.H2"], means["L1.H2"].expand(3, 12, -1))
        assert torch.equal(ablated["L1.H1"], z["L1.H1"])
        with heads.ablate("L0", "resample"), heads.outputs() as resampled:
            model(**given)
        for text in range(3):
            others = [torch.equal(resampled["L0.H1"][text], z["L0.H1"][other]) for other in range(3)]
            assert sum(others) == 1 and not others[text]
    with pytest.raises(Error, match="mean outputs"), heads.ablate("L0", "mean"):
        pass
    with pytest.raises(Error, match="unknown kind"), heads.ablate("L0", "meen"):
        pass


@pytest.mark.parametrize("family", ["bert", "llama", "t5", "gpt_oss"])
def test_statistics_equal_those_of_the_maps(family):
    given = inputs(family, "right" if family in ENCODERS + ["t5"] else "left")
    model = make(family, "headwise")
    heads = headwise.torch.Heads(model)
    with torch.no_grad(), heads.observe() as statistics, heads.maps("all") as maps:
        model(**given)
    real = given["attention_mask"].bool()
    site = heads.names.attentions[0][0]
    for head in range(4):
        weights = maps[f"{site}.H{head}"][0].double()[real]
        entropy = -(weights * torch.where(weights > 0, weights, 1).log()).sum(-1).mean()
        assert statistics[site]["entropy"][head] == pytest.approx(float(entropy), rel=1e-5)
        assert statistics[site]["confidence"][head] == pytest.approx(float(weights.max(-1).values.mean()), rel=1e-5)
        if family == "gpt_oss":
            assert statistics[site]["mass_sink"][head] == pytest.approx(float((1 - weights.sum(-1)).mean()), rel=1e-5)
    assert int(statistics[site].rows("entropy")[0]) == int(real.sum())
    table = heads.statistics_table(statistics)
    assert len(table["entropy"]) == len(heads)


def test_kernel_and_plain_statistics_agree(monkeypatch):
    for family in ("bert", "mistral", "whisper", "gpt_oss"):
        given = inputs(family, "left" if family in CAUSAL else "right" if family == "bert" else None)
        model = make(family, "headwise")
        heads = headwise.torch.Heads(model)
        found = []
        for plain in (False, True):
            monkeypatch.setattr(interface, "_force_plain", plain)
            with torch.no_grad(), heads.observe() as statistics:
                model(**given)
            found.append(statistics)
        for site in found[0]:
            for name in found[0][site]:
                np.testing.assert_array_equal(found[0][site].rows(name), found[1][site].rows(name), err_msg=f"{site} {name}")
                np.testing.assert_allclose(found[0][site][name], found[1][site][name], atol=1e-5, err_msg=f"{site} {name}")


def test_statistics_while_training():
    model = make("bert", "headwise").train()
    heads = headwise.torch.Heads(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with heads.observe() as statistics:
        for _ in range(2):
            optimizer.zero_grad()
            logits(model(**inputs("bert"))).pow(2).mean().backward()
            optimizer.step()
    assert int(statistics["L0"].rows("entropy")[0]) == 2 * 3 * 12


def test_hooks_of_a_head():
    given = inputs("llama")
    model = make("llama", "headwise")
    heads = headwise.torch.Heads(model)
    seen = []
    with torch.no_grad():
        before = logits(model(**given))
        with heads["L1.H2"].hook(lambda z: seen.append(z.clone())):
            assert torch.equal(logits(model(**given)), before)
        with heads["L1.H2"].hook(lambda z: torch.zeros_like(z)):
            replaced = logits(model(**given))
        with heads["L1.H2"].gate(0):
            close(logits(model(**given)), replaced)
    assert seen[0].shape == (3, 12, 8)


def test_attention_maps_as_transformers_has_them():
    given = inputs("llama")
    ours, eager = make("llama", "headwise"), make("llama", "eager")
    with torch.no_grad():
        expected = eager(**given, output_attentions=True).attentions
        found = ours(**given, output_attentions=True).attentions
    for a, b in zip(found, expected, strict=True):
        close(a, b)


def test_heads_need_headwise():
    with pytest.raises(Error) as caught:
        headwise.torch.Heads(make("bert", "eager"))
    assert "set_attn_implementation" in caught.value.hint
    with pytest.raises(Error, match="no attention"):
        headwise.torch.Heads(torch.nn.Linear(2, 2))
    heads = headwise.torch.Heads(make("bert", "headwise"))
    with pytest.raises(Error, match="shape"), heads.gates(np.ones((1, 4))):
        pass
    with pytest.raises(Error, match="not one head"):
        heads["L0"]


@pytest.mark.parametrize(("family", "padding"), CASES)
def test_masks_have_structure(family, padding, monkeypatch):
    """No mask of these models becomes a dense bias, and each is read once."""
    read = []
    find = headwise.torch.masks._find
    monkeypatch.setattr(headwise.torch.masks, "_find", lambda *args: read.append(find(*args)) or read[-1])
    with torch.no_grad():
        make(family, "headwise")(**inputs(family, padding))
    assert all(structure is not None for structure in read)
    assert len(read) <= {"gemma2": 2, "modernbert": 2, "gpt_oss": 2, "t5": 3}.get(family, 1)


def test_a_model_in_memory_is_loaded():
    model = make("bert", "headwise")
    ids = inputs("bert")["input_ids"][0]
    with torch.no_grad():
        expected = model.bert(input_ids=ids[None]).last_hidden_state[0].numpy()
    np.testing.assert_allclose(headwise.load(model).hidden(ids.tolist()), expected, atol=1e-5 * np.abs(expected).max())
