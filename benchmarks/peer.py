"""The peer's side of a benchmark: answers requests on standard input, one per line, on standard output.

    python peer.py attention jemalloc   serves the cases of peer_attention.py, which must have `prepare(case)` returning
                                        (run, outputs): the function to time, and one giving the tensors to compare;
                                        with jemalloc, if it is there, or the `default` allocator

    (at start)       -> ok {"torch": …, "jemalloc": …}
    prepare JSON     -> ok                               the case is made and warmed up
    time REPS        -> ok SECONDS CPU_SECONDS           of REPS runs together; the CPU's of all threads
    outputs          -> ok BYTES, then that many bytes   all outputs as float32, one after the other
Anything that goes wrong is answered by `error` and a JSON string; the next request is then served as usual.
"""
import importlib
import json
import os
import subprocess
import sys
import time

JEMALLOC = "libjemalloc.so.2"
LONG = 10  # seconds: what takes longer is warm after one run


def restart_with_jemalloc():
    """PyTorch's tuning guide asks for an allocator that keeps its memory; it must be there before the process starts."""
    if sys.argv[2] != "jemalloc" or "HEADWISE_PEER_STARTED" in os.environ:
        return
    os.environ["HEADWISE_PEER_STARTED"] = "1"
    trial = subprocess.run([sys.executable, "-c", ""], env={**os.environ, "LD_PRELOAD": JEMALLOC}, capture_output=True)
    if trial.stderr:  # the dynamic linker says that there is no such library, and goes on
        return
    os.environ["LD_PRELOAD"] = JEMALLOC
    os.environ["MALLOC_CONF"] = "dirty_decay_ms:-1,muzzy_decay_ms:-1"
    os.execv(sys.executable, [sys.executable, *sys.argv])


def timed(run, reps):
    start, cpu_start = time.perf_counter(), time.process_time()
    for _ in range(reps):
        run()
    return f"{time.perf_counter() - start!r} {time.process_time() - cpu_start!r}"


def serve(cases, requests, answers):
    run = outputs = None
    for line in requests:
        verb, _, argument = line.strip().partition(" ")
        payload = b""
        try:
            if verb == "prepare":
                run = outputs = None  # frees the last case's memory first
                run, outputs = cases.prepare(json.loads(argument))
                if float(timed(run, 1).split()[0]) < LONG:
                    run()
                answer = ""
            elif verb == "time":
                answer = timed(run, int(argument))
            elif verb == "outputs":
                payload = b"".join(t.detach().float().contiguous().numpy().tobytes() for t in outputs())
                answer = str(len(payload))
            else:
                raise ValueError(f"unknown request {verb!r}")
            reply = f"ok {answer}"
        except Exception as error:
            payload = b""
            reply = "error " + json.dumps(f"{type(error).__name__}: {error}")
        answers.write(reply.encode() + b"\n" + payload)
        answers.flush()


def main():
    restart_with_jemalloc()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not end up among the answers
    try:
        import torch

        cases = importlib.import_module("peer_" + sys.argv[1])
    except Exception as error:
        answers.write(b"error " + json.dumps(f"{type(error).__name__}: {error}").encode() + b"\n")
        answers.flush()
        return
    with open("/proc/self/maps") as maps:
        jemalloc = "libjemalloc" in maps.read()
    answers.write(b"ok " + json.dumps({"torch": torch.__version__, "jemalloc": jemalloc}).encode() + b"\n")
    answers.flush()
    serve(cases, sys.stdin, answers)


if __name__ == "__main__":
    main()
