"""The examples of docs/python.md run from top to bottom."""

import shutil

import pytest

tf = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

import doc_examples  # noqa: E402
import small_model  # noqa: E402


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with what the examples read: a BERT of 12 layers and 12 heads, texts and a treebank."""
    words = (small_model.make(tmp_path / "words") / "vocab.txt").read_text().split()
    torch.manual_seed(1)
    config = tf.BertConfig(hidden_size=48, num_attention_heads=12, num_hidden_layers=12, intermediate_size=64,
                           vocab_size=len(words), max_position_embeddings=64)
    tf.BertForMaskedLM(config).save_pretrained(tmp_path / "bert")
    for name in ("vocab.txt", "tokenizer_config.json"):
        shutil.copy(tmp_path / "words" / name, tmp_path / "bert")
    for name in ("reviews.txt", "train.txt"):
        (tmp_path / name).write_text("\n".join(small_model.TEXTS) + "\n")
    (tmp_path / "en.conllu").write_text(small_model.TREES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("number", range(len(doc_examples.scripts())))
def test_examples_run(place, number):
    script = doc_examples.scripts()[number]
    if "import polars" in script:
        pytest.importorskip("polars")
    exec(compile(script, f"docs/python.md, script {number}", "exec"), {})
    if "bert-60" in script:
        assert (place / "bert-60" / "model.safetensors").exists() and (place / "report.html").exists()
