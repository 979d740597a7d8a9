"""headwise and torch in one process: order of imports, forked workers, threads."""

import subprocess
import sys
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import headwise as hw  # noqa: E402

Q = np.random.default_rng(0).standard_normal((4, 8, 64, 16)).astype(np.float32)


@pytest.mark.parametrize("order", ["torch, headwise", "headwise, torch"])
def test_either_may_be_imported_first(order):
    code = f"""
import {order}
import numpy as np
x = torch.randn(300, 300)
for _ in range(3):
    a = x @ x
    q = np.ones((2, 4, 50, 16), np.float32)
    assert np.allclose(headwise.attention(q, q, q), 1)
print("fine")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "fine\n", done.stderr


def test_importing_headwise_imports_neither_torch_nor_pandas():
    code = "import headwise, sys; print([m for m in ('torch', 'pandas', 'transformers') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "[]\n", done.stderr


class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return hw.attention(Q, Q, Q, causal=index % 2 == 0).sum()


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_of_a_data_loader(context):
    hw.attention(Q, Q, Q)  # the parent has threads
    torch.ones(300, 300) @ torch.ones(300, 300)
    loader = torch.utils.data.DataLoader(Items(), batch_size=2, num_workers=2, multiprocessing_context=context)
    found = [x for batch in loader for x in batch.tolist()]
    assert found == [float(Items()[i]) for i in range(6)]


def test_threads_of_python():
    expected = hw.attention(Q, Q, Q)
    found = [None] * 4

    def work(i):
        for _ in range(5):
            found[i] = hw.attention(Q, Q, Q)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for out in found:
        np.testing.assert_array_equal(out, expected)


def test_tensors_go_in_and_out_without_copies():
    x = torch.from_numpy(Q)
    np.testing.assert_array_equal(hw.attention(x, x, x), hw.attention(Q, Q, Q))
