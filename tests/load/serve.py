#!/usr/bin/env python3
"""Many clients at once on headwise serve: what they get, and what memory the server takes.

usage: serve.py PROGRAM MODEL [--clients 200] [--seconds 60] [--pause 0] [--json]

Of every ten clients six look at texts, most with gates, one asks about the model and the page, and three are bad ones. One
sends part of a request and goes away, one asks and goes away before the answer, and one reads its answer byte by byte. Who is
told to come again (503) waits as long as it was told; --pause lets clients wait up to twice so many seconds between requests.
Beside them one page, which has a name, looks at a text, waits a second and looks again: it has a fair share. Memory and threads
of the server are written down 20 times. Fails if anything else than 200 and 503 comes, if the page gets anything but
200, if there are more threads in the end than in the beginning, or if the server does not end well.
"""
import argparse
import asyncio
import collections
import json
import random
import signal
import subprocess
import sys
import time

WORDS = "the cat sat on a mat because it was tired and would not go out into rain again today".split()


def state(process):
    """Resident memory in MiB, and threads."""
    with open(f"/proc/{process}/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    return round(int(fields["VmRSS"].split()[0]) / 1024, 1), int(fields["Threads"])


async def ask(port, method, path, body=b"", headers=""):
    """Status, seconds to wait before asking again, and the body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await reader.read()
        while chunk := await reader.read():
            answer += chunk
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    wait = [int(line.split(":")[1]) for line in lines if line.lower().startswith("retry-after:")]
    status = int(lines[0].split()[1])
    if status == 503 and not wait:
        raise ValueError("503 without Retry-After")
    if status == 200:
        length = [int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length:")]
        if length != [len(body)]:
            raise ValueError("an answer that is not whole")
    return status, wait[0] if wait else 0, body


class Load:
    def __init__(self, port, heads, end, pause):
        self.port, self.heads, self.end, self.pause = port, heads, end, pause
        self.counts = collections.Counter()
        self.errors = collections.Counter()
        self.seconds, self.page_seconds = [], []
        self.page_statuses = collections.Counter()

    async def client(self, number):
        draw = random.Random(number)
        while time.monotonic() < self.end:
            try:
                if number % 10 == 0:
                    await self.be_slow(draw)
                elif number % 10 == 1:
                    await self.count("page", "GET", draw.choice(["/", "/api/model"]))
                elif number % 10 in (2, 3):
                    await self.leave(self.body(draw), draw, reads=number % 10 == 3)
                else:
                    await self.count("look", "POST", "/api/look", self.body(draw))
                await asyncio.sleep(draw.uniform(0, 2 * self.pause))
            except (OSError, ValueError, IndexError) as error:
                self.errors[f"{type(error).__name__}: {error}"] += 1
                await asyncio.sleep(0.1)

    def body(self, draw):
        gates = {head: draw.choice([0, 0.5]) for head in draw.sample(self.heads, draw.randrange(min(4, len(self.heads) + 1)))}
        text = " ".join(draw.choice(WORDS) for _ in range(draw.randrange(3, 25)))
        return json.dumps({"text": text, "gates": gates}).encode()

    async def page(self):
        body = json.dumps({"text": " ".join(WORDS)}).encode()
        while time.monotonic() < self.end:
            begin = time.monotonic()
            status, _, _ = await ask(self.port, "POST", "/api/look", body, "Headwise-Page: one\r\n")
            self.page_statuses[status] += 1
            self.page_seconds.append(time.monotonic() - begin)
            await asyncio.sleep(1)

    async def count(self, kind, method, path, body=b""):
        begin = time.monotonic()
        status, wait, _ = await ask(self.port, method, path, body)
        self.counts[kind, status] += 1
        if status == 200 and kind == "look":
            self.seconds.append(time.monotonic() - begin)
        await asyncio.sleep(wait * random.uniform(0.5, 1.5))

    async def leave(self, body, draw, reads):
        """Asks, and goes away before the answer, or after it has read some bytes of it one by one."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1)
        writer.write(f"POST /api/look HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        try:
            if reads:
                for _ in range(draw.randrange(200)):
                    if not await reader.read(1):
                        break
                    await asyncio.sleep(0.02)
            else:
                await asyncio.sleep(draw.uniform(0, 0.1))
        finally:
            writer.close()
        self.counts["slow reader" if reads else "cancel", "closed"] += 1

    async def be_slow(self, draw):
        _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"POST /api/look HTTP/1.1\r\nHost: localh"[: draw.randrange(1, 40)])
        await asyncio.sleep(min(draw.uniform(0, 15), max(0, self.end - time.monotonic())))
        writer.close()
        self.counts["slow", "closed"] += 1


async def run(options, port, process):
    _, _, body = await ask(port, "GET", "/api/model")
    heads = [f"{site['name']}.H{head}" for site in json.loads(body)["attentions"] for head in site["head_names"]]
    warm = Load(port, heads, time.monotonic() + 3, 0)
    await asyncio.gather(*(warm.client(n) for n in (4, 5)))
    states = [state(process)]
    load = Load(port, heads, time.monotonic() + options.seconds, options.pause)
    watching = asyncio.create_task(watch(options, process, states))
    await asyncio.gather(*(load.client(n) for n in range(options.clients)), load.page())
    await watching
    await asyncio.sleep(12)  # connections that say nothing have ended
    states.append(state(process))
    return load, states


async def watch(options, process, states):
    for _ in range(20):
        await asyncio.sleep(options.seconds / 20)
        states.append(state(process))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--pause", type=float, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    server = subprocess.Popen([options.program, "serve", options.model, "--port", "0", "--json"], stdout=subprocess.PIPE)
    try:
        port = int(json.loads(server.stdout.readline())["url"].rstrip("/").rsplit(":", 1)[1])
        load, states = asyncio.run(run(options, port, server.pid))
        server.send_signal(signal.SIGTERM)
        code = server.wait(30)
    finally:
        server.kill()
    times = sorted(load.seconds) or [float("nan")]
    result = {
        "clients": options.clients,
        "seconds": options.seconds,
        "looks": load.counts["look", 200],
        "pages": load.counts["page", 200],
        "asked_to_come_again": load.counts["look", 503] + load.counts["page", 503],
        "slow": load.counts["slow", "closed"],
        "cancelled": load.counts["cancel", "closed"],
        "slow_readers": load.counts["slow reader", "closed"],
        "the_page": {str(status): n for status, n in load.page_statuses.items()},
        "slowest_of_the_page": round(max(load.page_seconds), 3),
        "other": {f"{kind} {status}": n for (kind, status), n in load.counts.items() if status not in (200, 503, "closed")},
        "errors": dict(load.errors),
        "median_seconds": round(times[len(times) // 2], 3),
        "p99_seconds": round(times[int(len(times) * 0.99)], 3),
        "slowest_seconds": round(times[-1], 3),
        "resident_mib": [memory for memory, _ in states],
        "threads": [threads for _, threads in states],
        "exit_code": code,
    }
    if options.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:<20} {value}")
    sys.exit(0 if code == 0 and states[-1][1] <= states[0][1] and not result["other"] and not result["errors"] and list(load.page_statuses) == [200] else 1)


main()
