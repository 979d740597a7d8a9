// Stands in for headwise serve: a model of six layers that attends to neighbours, and answers as the real one would.
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";

const layers = 6,
  heads = 12,
  words_most = 128;

function map(rows, seed) {
  const bytes = Buffer.alloc(rows * rows);
  for (let i = 0; i < rows; ++i) {
    const at = Math.max(0, Math.min(rows - 1, i + (seed % 5) - 2));
    bytes[i * rows + at] = 200;
    bytes[i * rows] += 55;
  }
  return { rows, columns: rows, data: bytes.toString("base64") };
}

const fail = (what, got = "", expected = "") => ({ error: { what, where: "", got, expected, hint: "" } });

/// `page` is the HTML document; `step` is how long a job takes for one head, in milliseconds.
export async function serve_mock(page, { port = 0, step = 40 } = {}) {
  const instance = randomUUID(),
    jobs = new Map(),
    requests = [],
    sockets = new Set();
  const names = Array.from({ length: layers }, (_, l) => Array.from({ length: heads }, (_, h) => `L${l}.H${h}`)).flat();

  function look({ text, gates = {} }) {
    if (typeof text !== "string") return [400, fail("text is missing")];
    for (const [head, gate] of Object.entries(gates)) {
      if (!names.includes(head)) return [400, fail("there is no such head", head)];
      if (!(gate >= 0 && gate <= 1)) return [400, fail("a gate is not in range", String(gate), "0 to 1")];
    }
    const words = text.split(/\s+/).filter(Boolean),
      tokens = ["[CLS]", ...words.slice(0, words_most - 2), "[SEP]"];
    const closed = Object.values(gates).reduce((sum, gate) => sum + 1 - gate, 0);
    const candidates = (shift) =>
      ["mat", "floor", "bed", "table", "grass"].map((token, i) => ({
        token,
        probability: Math.max(0.01, 0.4 - 0.08 * i - (i === 0 ? shift : 0)),
      }));
    return [
      200,
      {
        tokens,
        maps: Object.fromEntries(names.map((name, i) => [name, map(tokens.length, i)])),
        original: { candidates: candidates(0), continuation: "mat and slept" },
        gated: closed > 0 ? { candidates: candidates(0.05 * closed), continuation: "floor" } : null,
        ...(words.length > words_most - 2 ? { truncated: true } : {}),
      },
    ];
  }

  function start(job) {
    if (!["ablate", "plan"].includes(job.kind)) return [400, fail("unknown kind", job.kind)];
    const id = randomUUID(),
      state = { id, kind: job.kind, state: "running", done: 0, total: names.length, what: "ablating L0" };
    const timer = setInterval(() => {
      state.what = `ablating L${Math.floor(++state.done / heads)}`;
      if (state.done < state.total) return;
      clearInterval(timer);
      state.state = "done";
      state.result =
        job.kind === "plan"
          ? { schema: 1, drop: names.slice(0, 18), keep: names.slice(18), order: job.order }
          : {
              heads: names.map((head, i) => ({
                head,
                value: (i % 13) / 1000,
                low: (i % 13) / 1000 - 0.0005,
                high: (i % 13) / 1000 + 0.0005,
              })),
              loss: { task: "lm", value: 3.2 },
            };
    }, step);
    jobs.set(id, { state, timer });
    return [202, { id }];
  }

  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`);
    let body = "";
    request.on("data", (part) => {
      body += part;
    });
    request.on("end", () => {
      const send = (status, value) =>
        response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(value));
      if (request.url === "/") return response.writeHead(200, { "Content-Type": "text/html; charset=utf-8" }).end(page);
      if (body.length > 65536) return send(413, fail("the body is too large"));
      let given = {};
      try {
        given = body ? JSON.parse(body) : {};
      } catch {
        return send(400, fail("not JSON"));
      }
      if (request.url === "/api/model") {
        return send(200, {
          instance,
          version: "mock",
          model: { name: "mock", architecture: "GPT2LMHeadModel" },
          task: "next",
          mask: null,
          limits: { tokens: words_most, characters: 10000 },
          attentions: Array.from({ length: layers }, (_, l) => ({ name: `L${l}`, kind: "self", heads })),
        });
      }
      if (request.url === "/api/look") return send(...look(given));
      if (request.url === "/api/jobs") return send(...start(given));
      const job = jobs.get(request.url.replace("/api/jobs/", ""));
      if (!job) return send(404, fail("there is no such job"));
      if (request.method === "DELETE" && job.state.state === "running") {
        clearInterval(job.timer);
        job.state.state = "cancelled";
      }
      return send(200, job.state);
    });
  });
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  return {
    port: server.address().port,
    requests,
    close: () =>
      new Promise((resolve) => {
        for (const { timer } of jobs.values()) clearInterval(timer);
        for (const socket of sockets) socket.destroy();
        server.close(resolve);
      }),
  };
}
