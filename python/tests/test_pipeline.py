"""The pipeline in Python: equal to what the program writes, bit for bit."""

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import small_model

import headwise as hw

TEXTS = small_model.TEXTS


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return small_model.make(tmp_path_factory.mktemp("model") / "bert")


@pytest.fixture(scope="session")
def model(folder):
    return hw.load(folder)


@pytest.fixture(scope="session")
def reviews(tmp_path_factory):
    file = tmp_path_factory.mktemp("texts") / "reviews.txt"
    file.write_text("\n".join(TEXTS) + "\n")
    return file


@pytest.fixture(scope="session")
def evidence(model):
    return model.observe(TEXTS, probes=False)


def program(*arguments):
    places = [Path(sys.executable).parent, Path(hw.__file__).parents[1] / "headwise.scripts"]  # the latter after pip install --target
    command = next(place / "headwise" for place in places if (place / "headwise").exists())
    done = subprocess.run([command, *map(str, arguments), "--quiet"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_model_knows_what_it_is(model, folder):
    assert (model.name, model.folder) == ("bert", str(folder))
    assert model.heads[0] == "L0.H0" and len(model.heads) == 8
    assert len(model.hash) == 64
    assert repr(model) == "Model('bert', 8 heads)"
    assert hw.Model.from_pretrained(str(folder)).heads == model.heads


def test_run_equals_the_program(model, folder, tmp_path):
    for task, found in (("hidden", model.hidden(TEXTS[0])), ("logits", model(TEXTS[0]))):
        program("run", folder, "--task", task, "--text", TEXTS[0], "-o", tmp_path / f"{task}.npy")
        np.testing.assert_array_equal(found, np.load(tmp_path / f"{task}.npy"))
    program("run", folder, "--task", "hidden", "--text", TEXTS[0], "--gate", "L1.H2=0", "-o", tmp_path / "gated.npy")
    before = model.hidden(TEXTS[0])
    with model.gates({"L1.H2": 0}):
        np.testing.assert_array_equal(model.hidden(TEXTS[0]), np.load(tmp_path / "gated.npy"))
        with model.gates({"L0": 0.5}):
            assert not np.array_equal(model.hidden(TEXTS[0]), np.load(tmp_path / "gated.npy"))
    np.testing.assert_array_equal(model.hidden(TEXTS[0]), before)
    np.testing.assert_array_equal(model.hidden(model.encode(TEXTS[0])), before)


def test_attend_equals_the_program(model, folder, tmp_path):
    maps = model.attend(TEXTS[0])
    program("attend", folder, "--text", TEXTS[0], "-o", tmp_path / "maps.npy")
    np.testing.assert_array_equal(np.stack(list(maps.values())), np.load(tmp_path / "maps.npy"))
    assert list(maps) == model.heads
    assert maps.source == model.tokens(TEXTS[0])
    one = model.attend(TEXTS[0], heads="L1.H2")
    np.testing.assert_array_equal(one["L1.H2"], maps["L1.H2"])
    assert "<svg" in one._repr_html_() and "attends most to" in repr(one)


def test_observe_equals_the_program(evidence, folder, reviews, tmp_path):
    program("observe", folder, "--input", reviews, "--no-probes", "-o", tmp_path / "evidence.json")
    theirs = json.loads((tmp_path / "evidence.json").read_text())
    ours = evidence.to_dict()
    for one in (ours, theirs):
        one.pop("corpus"), one.pop("options")
    assert ours == theirs


def test_tables(evidence):
    """Without pandas, dictionaries of NumPy columns; with it, data frames."""
    table, verdict = evidence.heads, evidence.judge()
    theirs = evidence.to_dict()["heads"]
    np.testing.assert_array_equal(table["entropy"], [row["measures"]["entropy"]["value"] for row in theirs])
    assert list(verdict.heads["standing"]) == [row.get("standing") for row in verdict.to_dict()["heads"]]
    assert isinstance(table, hw.Table) == ("pandas" not in sys.modules)
    for one in (evidence, verdict, hw.Table(x=np.array([1.0, np.nan]))):
        assert "arrow_array_stream" in repr(one.__arrow_c_stream__())
    with pytest.raises(hw.Error, match="length"):
        hw.Table(x=np.zeros(2), y=np.zeros(3)).__arrow_c_stream__()


def test_plan_and_prune_equal_the_program(model, folder, evidence, tmp_path):
    evidence.save(tmp_path / "evidence.json")
    program("judge", tmp_path / "evidence.json", "-o", tmp_path / "verdict.json")
    verdict = evidence.judge()
    assert hw.Verdict.load(tmp_path / "verdict.json") == verdict
    program("plan", tmp_path / "verdict.json", "--model", folder, "--keep", "0.5", "-o", tmp_path / "plan.json")
    plan = model.plan(verdict, keep=0.5)
    assert hw.Plan.load(tmp_path / "plan.json").drop == plan.drop
    assert len(plan.drop) == 4
    small = model.prune(plan)
    small.save(tmp_path / "python")
    plan.save(tmp_path / "python.json")
    program("prune", folder, tmp_path / "python.json", "-o", tmp_path / "program")
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "python" / name).read_bytes() == (tmp_path / "program" / name).read_bytes()
    assert small.heads == [head for head in model.heads if head not in plan.drop]
    again = hw.load(tmp_path / "python")
    np.testing.assert_array_equal(again.hidden(TEXTS[0]), small.hidden(TEXTS[0]))
    with model.gates({head: 0 for head in plan.drop}):
        np.testing.assert_allclose(small.hidden(TEXTS[0]), model.hidden(TEXTS[0]), atol=2e-5)


def test_tables(evidence, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = evidence.heads
    assert list(table["head"])[:2] == ["L0.H0", "L0.H1"]
    records = evidence.to_dict()["heads"]
    np.testing.assert_allclose(table["entropy"], [record["entropy"] for record in records])
    np.testing.assert_allclose(table["ablation_zero"], [record["ablation_zero"]["value"] for record in records])
    verdict = evidence.judge()
    assert set(verdict.heads) == {"head", "standing", "roles", "redundant_with"}
    assert verdict.explain("L0.H0").startswith("L0.H0")


def test_results_go_to_files_and_back(evidence, model, tmp_path):
    verdict = evidence.judge()
    plan = model.plan(verdict, heads=6)
    for one in (evidence, verdict, plan):
        one.save(tmp_path / "deep" / "one.json")
        assert type(one).load(tmp_path / "deep" / "one.json") == one
        assert pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(hw.Error):
        hw.Plan.load(tmp_path / "deep" / "one.json").__class__._core_type.from_json("[]", "x")
    assert os.listdir(tmp_path / "deep") == ["one.json"]


def test_activations_have_the_names_of_transformer_lens(model):
    logits, cache = model.run_with_cache(TEXTS[0])
    rows = len(model.encode(TEXTS[0]))
    assert logits.shape[0] == rows
    z = cache["blocks.1.attn.hook_z"]
    assert z.shape == (1, rows, 4, 4)
    pattern = cache["blocks.1.attn.hook_pattern"]
    assert pattern.shape == (1, 4, rows, rows)
    np.testing.assert_allclose(np.einsum("bhij,bjhd->bihd", pattern, cache["blocks.1.attn.hook_v"]), z, atol=1e-6)
    after = cache["blocks.0.hook_normalized_resid_post"]
    np.testing.assert_array_equal(cache["blocks.1.hook_resid_pre"], after)
    np.testing.assert_array_equal(cache["blocks.1.hook_normalized_resid_post"][0], model.hidden(TEXTS[0]))
    assert cache["blocks.0.hook_resid_pre"].shape == (1, rows, 16)
    assert cache["z", 1] is z and cache["z", -1] is z and cache["normalized_resid_post", 0] is after
    assert ("z", 1) in cache and ("z", 2) not in cache
    assert len(cache) == len(cache.keys()) == 16
    for key in cache:
        assert cache[key].shape[0] == 1
    for name in ("blocks.9.attn.hook_z", ("z", 2), ("y", 0)):
        with pytest.raises(KeyError):
            cache[name]
    with pytest.raises(KeyError, match="did you mean 'blocks.0.hook_attn_out'"):
        cache["blocks.0.hook_attn_ou"]


def test_activations_are_computed_when_asked_for(model, monkeypatch):
    """And with the gates of the run, whatever they are by then."""
    runs = []
    run = hw.Model._run
    monkeypatch.setattr(hw.Model, "_run", lambda self, *args: runs.append(args) or run(self, *args))
    with model.gates({"L0.H1": 0}):
        _, cache = model.run_with_cache(TEXTS[0])
    assert len(runs) == 1
    assert not cache["blocks.0.attn.hook_z"][0, :, 1].any() and cache["blocks.0.attn.hook_z"][0, :, 0].any()
    assert len(runs) == 2  # kept
    cache["blocks.0.attn.hook_q"]
    assert len(runs) == 3


def test_study(model, tmp_path):
    seen = []
    study = model.study(TEXTS, keep=0.75, probes=False, passes=40, out=tmp_path / "study",
                        progress=lambda what, done, total: seen.append(what))
    assert "ablation" in seen
    assert len(study.plan.drop) == 2
    assert study.pruned is not None and len(study.pruned.heads) == 6
    assert hw.Plan.load(tmp_path / "study" / "plan.json") == study.plan
    assert study.summary == json.loads((tmp_path / "study" / "summary.json").read_text())
    assert (tmp_path / "study" / "report.html").exists()
    page = study._repr_html_()
    assert page.startswith("<iframe srcdoc=") and 'sandbox="allow-scripts"' in page
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(study)
    study.save_page(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == study.page()


def test_observe_reads_files(model, folder, tmp_path):
    (tmp_path / "en.conllu").write_text(small_model.TREES)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    evidence = model.observe(treebank=tmp_path / "en.conllu", measures=["attention", "linguistic"], probes=False)
    program("observe", folder, "--treebank", tmp_path / "en.conllu", "--measure", "attention,linguistic", "--no-probes",
            "-o", tmp_path / "evidence.json")
    assert evidence.to_dict()["heads"] == json.loads((tmp_path / "evidence.json").read_text())["heads"]
    assert any(name.startswith("relation.det") for name in evidence.heads)
    evidence = model.observe(data=tmp_path / "texts.txt", measures=["importance"], probes=False)
    assert "ablation_zero" in evidence.heads


def test_a_classifier_is_studied_and_recovered(tmp_path):
    folder = small_model.make(tmp_path / "classifier", labels=2)
    data = small_model.write_labels(tmp_path / "train.tsv")
    model = hw.load(folder)
    assert model(TEXTS[0]).shape == (1, 2)
    study = model.study(data=data, keep=0.5, probes=False, passes=40, form="masked")
    program("study", folder, "--data", data, "--keep", "0.5", "--loss", "classify", "--no-probes", "--passes", "40", "--form", "masked",
            "-o", tmp_path / "study")
    assert hw.Plan.load(tmp_path / "study" / "plan.json").drop == study.plan.drop
    assert study.evidence.to_dict()["loss"]["task"] == "classify"
    assert study.pruned is not None and study.pruned.heads == model.heads  # masked: they stay, with weights of 0
    small = model.prune(study.plan, recover=data, epochs=2)
    assert len(small.heads) == 4 and small.report
    small.save(tmp_path / "small")
    plain = model.prune(study.plan)
    assert not np.array_equal(small(TEXTS[0]), plain(TEXTS[0]))
    np.testing.assert_array_equal(hw.load(tmp_path / "small")(TEXTS[0]), small(TEXTS[0]))


def test_an_id_in_the_local_cache(folder, tmp_path, monkeypatch):
    snapshot = tmp_path / "hub" / "models--some--bert" / "snapshots" / "0123"
    snapshot.parent.mkdir(parents=True)
    snapshot.symlink_to(folder)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("0123")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    model = hw.load("some/bert")
    assert model.name == "some/bert"
    np.testing.assert_array_equal(model(TEXTS[0]), hw.Model.from_pretrained(folder)(TEXTS[0]))


def test_a_model_works_in_a_forked_process(model):
    import multiprocessing

    expected = model(TEXTS[0])  # the parent has threads by then
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    process = context.Process(target=lambda: results.put(model(TEXTS[0])))
    process.start()
    np.testing.assert_array_equal(results.get(timeout=60), expected)
    process.join()


def test_threads_share_a_model(model):
    expected = [model(text) for text in TEXTS[:4]]
    found = [None] * 4

    def work(i):
        for _ in range(10):
            found[i] = model(TEXTS[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for ours, theirs in zip(found, expected):
        np.testing.assert_array_equal(ours, theirs)


def test_progress_may_stop(model, tmp_path):
    class Stop(Exception):
        pass

    def stop(what, done, total):
        raise Stop

    with pytest.raises(Stop):
        model.study(TEXTS, keep=0.75, out=tmp_path / "study", progress=stop)
    with pytest.raises(Stop):
        model.observe(TEXTS, progress=stop)


def test_ctrl_c_stops(model):
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        for _ in range(200):
            model.observe(TEXTS * 20)


def test_bars(model, monkeypatch):
    """A bar of tqdm where somebody looks; nothing without tqdm."""
    import types

    shown = []

    class Bar:
        def __init__(self, desc, leave):
            self.n = 0

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def set_description_str(self, text):
            self.text = text

        def refresh(self):
            shown.append((self.text, self.n, self.total))

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=Bar))
    sys.modules["tqdm"].auto = sys.modules["tqdm.auto"]
    model.observe(TEXTS, probes=False)
    assert any(text.startswith("observe: ") and total for text, _, total in shown)
    shown.clear()
    model.observe(TEXTS, probes=False, progress=False)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)  # as if it were not installed
    model.observe(TEXTS, probes=False)
    assert not shown


def test_errors(model, folder, tmp_path):
    with pytest.raises(hw.Error) as caught:
        hw.load(tmp_path / "nothing")
    assert "nothing" in str(caught.value)
    with pytest.raises(hw.Error, match="cannot read"):
        hw.load(3)
    with pytest.raises(hw.Error, match="one text"):
        model.observe("one text")
    with pytest.raises(hw.Error, match="L9"), model.gates({"L9.H1": 0}):
        pass
    with pytest.raises(hw.Error, match="one for each head"), model.gates(np.ones(3)):
        pass
    with pytest.raises(hw.Error):
        model.observe(TEXTS, measures=["attenton"])
    verdict = model.observe(TEXTS, measures=["importance"], probes=False).judge()
    with pytest.raises(hw.Error):
        model.plan(verdict)
    with pytest.raises(hw.Error):
        model.prune(model.plan(verdict, keep=0.5), form="compackt")
    with pytest.raises(hw.Error):
        model.observe([], treebank=tmp_path / "none.conllu")
    for one in (model, model.run_with_cache(TEXTS[0])[1]):
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(one)
    with pytest.raises(hw.Error):
        verdict.explain("L9.H9")
