// Folders to report on: studies of small models by the program itself, and made-up ones of any size.
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

export const root = fileURLToPath(new URL("../../", import.meta.url));
export const program = process.env.HEADWISE_PROGRAM ?? join(root, "build/release/bin/headwise");
export const folder = mkdtempSync(join(tmpdir(), "headwise-page-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

export const run = (...args) =>
  execFileSync(program, args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], maxBuffer: 1 << 28 });
export const url_of = (file) => pathToFileURL(file).href;

/// The report of a folder, as a file's address.
export function report(study) {
  const file = join(folder, `${study.replace(/[^a-z0-9]+/gi, "-")}.html`);
  run("report", study, "-o", file);
  return url_of(file);
}

/// A study of a model of tests/golden: its words are w5 to w69, or only ids.
export function small_study(name) {
  const model = join(folder, name),
    out = join(folder, `${name}-study`);
  if (existsSync(out)) return out;
  cpSync(join(root, "tests/golden/models", name), model, { recursive: true });
  const words = Array.from({ length: 65 }, (_, i) => `w${i + 5}`),
    lines = words.slice(0, 40).map((word, i) => `${word} w${i + 12} w9 w12 w7`);
  const ids = lines
    .slice(0, 12)
    .flatMap((_, i) => ["--ids", Array.from({ length: 6 }, (_, k) => 5 + ((i * 7 + k * 3) % 40)).join(" ")]);
  const wordy = !existsSync(join(model, "tokenizer.json")) && name.startsWith("bert");
  if (wordy)
    writeFileSync(join(model, "vocab.txt"), ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ...words].join("\n") + "\n");
  const input = join(folder, "lines.txt");
  writeFileSync(input, lines.join("\n") + "\n");
  run("study", model, ...(wordy ? ["--input", input] : ids), "--no-probes", "--keep", "0.5", "-o", out, "--quiet");
  return out;
}

/// A model on which an ablation takes minutes, whatever the machine: one step of training, 96 heads, the words of small_study.
export function slow_model() {
  const out = join(folder, "slow"),
    text = join(folder, "slow.txt"),
    settings = join(folder, "slow.json");
  if (existsSync(out)) return out;
  writeFileSync(text, `${Array.from({ length: 65 }, (_, i) => `w${i + 5}`).join(" ")}\n`);
  writeFileSync(
    settings,
    JSON.stringify({
      task: "masked_lm",
      model: {
        architecture: "bert",
        hidden_size: 512,
        layers: 12,
        heads: 8,
        max_position_embeddings: 256,
        vocab_size: 400,
      },
      data: { train: text, length: 256, truncate: true },
      steps: 1,
    }),
  );
  run("train", settings, "-o", out, "--quiet");
  return out;
}

/// MiniLM, where ./dev model minilm has put it: a few sentences are enough to fill every section.
export function minilm_study() {
  if (process.env.HEADWISE_STUDY) return process.env.HEADWISE_STUDY;
  const model = join(root, "build/models/minilm"),
    out = join(folder, "minilm-study");
  if (!existsSync(join(model, "config.json"))) return null;
  const texts = [
    "The captain, who had never trusted either of them, asked for the papers again.",
    "Her brother laughed, because he had packed the crates himself.",
    "She told them that some mistakes are worth keeping.",
    "Gulls sat on the rail in a row and waited for bread.",
  ];
  if (!existsSync(out))
    run("study", model, ...texts.flatMap((text) => ["--text", text]), "--no-probes", "-o", out, "--quiet");
  return out;
}

function random(seed) {
  let state = seed;
  return () => {
    state = (state * 1664525 + 1013904223) % 4294967296;
    return state / 4294967296;
  };
}

const relations = [
  "nsubj",
  "obj",
  "det",
  "amod",
  "advmod",
  "case",
  "mark",
  "conj",
  "cc",
  "aux",
  "nmod",
  "obl",
  "compound",
  "iobj",
  "xcomp",
  "advcl",
];
const roles = [
  "previous",
  "relation",
  "coreference",
  "induction",
  "rare",
  "delimiter",
  "broad",
  "unclear",
  "window",
  "noise",
];

/// Evidence, verdict, plan, samples and summary of a model that there is not. `attentions`: [["enc.L0", 8], ["cross.L0", 3], …]
/// `change` edits the parts before they are written.
export function made_up_study(name, attentions, { tokens, target_tokens, wordy = relations.length, change } = {}) {
  const out = join(folder, name),
    next = random(7);
  mkdirSync(out, { recursive: true });
  const heads = attentions.flatMap(([attention, count]) =>
    Array.from({ length: count }, (_, h) => `${attention}.H${h}`),
  );
  const interval = (value) => ({ value, low: value * 0.9, high: value * 1.1, n: 500 });
  const accuracy = () => {
    const a = next();
    return { accuracy: a, n: 400, low: Math.max(0, a - 0.05), high: Math.min(1, a + 0.05), baseline: next() * 0.7 };
  };
  const model = { name, architecture: "MadeUpModel", sha256: "0".repeat(64) };
  const js = {},
    cka = {};
  for (const [attention, count] of attentions) {
    const square = (on) => {
      const m = Array.from({ length: count }, () => Array(count).fill(on));
      for (let a = 0; a < count; ++a) for (let b = 0; b < a; ++b) m[a][b] = m[b][a] = next() * 0.69;
      return m;
    };
    js[attention] = square(0);
    cka[attention] = square(1);
  }
  const layer = (head) => Number(/L(\d+)/.exec(head)[1]);
  const composition = Object.fromEntries(
    ["q", "k", "v"].map((way) => [
      way,
      {
        all: heads.map((a) =>
          heads.map((b) => (layer(a) < layer(b) ? Number((next() * next() * next()).toFixed(6)) : null)),
        ),
      },
    ]),
  );
  const records = heads.map((head) => ({
    head,
    rows: 5000,
    entropy: next() * 3,
    entropy_ratio: next(),
    confidence: next(),
    distance: next() * 9,
    mass_previous: next(),
    mass_next: next(),
    mass_self: next(),
    mass_first: next(),
    mass_last: next(),
    mass_special: next(),
    mass_punctuation: next(),
    mass_window: next(),
    ablation_zero: interval(next() ** 4 * 0.04),
    ablation_mean: interval(next() ** 4 * 0.02),
    gradient: next() ** 3 * 0.04,
    gradient_normalised: next(),
    constancy: next(),
    contribution_norm: next(),
    copying: 2 * next() - 1,
    semantic: next() - 0.5,
    rare_share: next(),
    rare_chance: 0.2,
    qk_rank: 30 * next(),
    ov_rank: 30 * next(),
    induction: next() ** 5,
    duplicate: next() ** 5,
    offset_share: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [String(i - 8), next() / 8])),
    relation: Object.fromEntries(
      relations.slice(0, wordy).map((relation) => [relation, { to_head: accuracy(), to_dependent: accuracy() }]),
    ),
    n: {},
  }));
  const evidence = {
    schema: 1,
    model,
    corpus: { text: { name: "made up", sha256: "0".repeat(64), texts: 100, tokens: 5000 } },
    options: { seed: "0" },
    finished: ["attention"],
    heads: records,
    pairs: { js, output_cka: cka, composition },
    layers: [],
    best: {},
    best_probes: {},
    groups: [],
    loss: { task: "lm", value: 3.1, examples: 100, tokens: 5000 },
  };
  const by = (value) => [...records].sort((a, b) => value(b) - value(a)).map((record) => record.head);
  const standing = (record) =>
    record.ablation_zero.low > 0.0155 ? "essential" : record.ablation_zero.high <= 0.0155 ? "replaceable" : "undecided";
  const verdict = {
    schema: 1,
    model,
    loss: { task: "lm", value: 3.1 },
    tolerance: 0.0155,
    thresholds: {},
    categories: [],
    layers: [],
    clusters: [[heads[0], heads[1]]],
    heads: records.map((record) => {
      const role = roles[Math.floor(next() * roles.length)],
        source = ["relation", "coreference", "rare"].includes(role) && next() < 0.3 ? "probes" : "data";
      return {
        head: record.head,
        roles: [
          {
            role,
            ...(role === "relation" ? { detail: "nsubj to_head" } : {}),
            score: 0.5,
            baseline: 0.2,
            low: 0.45,
            high: 0.55,
            n: 400,
            source,
          },
        ],
        importance: { gradient: record.gradient, ablation_zero: record.ablation_zero, entropy: record.entropy },
        standing: standing(record),
        redundant_with: [],
        backups: [],
        words: `${record.head} does something that was made up: ${role}.`,
      };
    }),
    rankings: { ablation_zero: by((r) => r.ablation_zero.value), gradient: by((r) => r.gradient) },
    correlation: { ablation_zero: { gradient: 0.8 }, gradient: { ablation_zero: 0.8 } },
  };
  const drop = by((r) => -r.ablation_zero.value).slice(0, Math.floor(heads.length / 4));
  const curve = (slope) =>
    Array.from({ length: 9 }, (_, i) => ({ removed: Math.floor((i * heads.length) / 8), loss: 3.1 + slope * i * i }));
  const plan = {
    schema: 1,
    drop,
    keep: heads.filter((head) => !drop.includes(head)),
    order: "ablation",
    expected: { heads: heads.length - drop.length, heads_before: heads.length, loss: 3.15, loss_before: 3.1 },
    curves: { ablation: curve(0.02), random: curve(0.1) },
  };
  const source = tokens ?? [
      "[CLS]",
      ..."the captain who had never trusted either of them asked for the papers again".split(" "),
      "[SEP]",
    ],
    target = target_tokens ?? source;
  const map = (head) => {
    const rows = /^(dec|cross)/.test(head) ? target.length : source.length,
      columns = head.startsWith("dec") ? target.length : source.length,
      bytes = Buffer.alloc(rows * columns);
    for (let i = 0; i < rows; ++i) {
      bytes[i * columns + Math.floor(next() * columns)] = 180;
      bytes[i * columns] = 60;
    }
    return { rows, columns, data: bytes.toString("base64") };
  };
  const samples = {
    schema: 1,
    samples: [0, 1].map(() => ({
      tokens: source,
      special: [0, source.length - 1],
      ...(target_tokens ? { target_tokens: target, target_special: [0] } : {}),
      maps: Object.fromEntries(heads.map((head) => [head, map(head)])),
    })),
  };
  const summary = {
    schema: 1,
    held_out: {
      examples: 104,
      chosen_on: 100,
      task: "lm",
      before: 3.1,
      after: 3.25,
      change: 0.15,
      low: 0.12,
      high: 0.18,
      random: { change: 0.4, median: 0.38, draws: 10 },
      perplexity: { before: 22.2, after: 25.8 },
    },
    words: {
      importance: "1 essential, 2 undecided: 100 texts are too few",
      cost: "The plan raises the lm loss by 4.8 % on 104 held-out texts; random heads raise it by 12 %",
      meaning: "perplexity 22.2 → 25.8",
      comparison: "on held-out examples the plan costs less than as many heads at random, beyond its 95 % interval",
      savings: "The plan saves 6 % of the parameters and 11 % of the time",
      limit: "Attention is 31 % of the parameters: removing every head saves no more",
      pays: "It pays for texts of more than 64 tokens",
    },
    made: { command: "headwise study /home/someone/models/made-up --input /home/someone/texts.txt -o /tmp/study" },
  };
  const parts = { evidence, verdict, plan, samples, summary };
  change?.(parts);
  for (const [part, value] of Object.entries(parts)) writeFileSync(join(out, `${part}.json`), JSON.stringify(value));
  return out;
}

/// A training's folder, and a sweep's.
export function made_up_training() {
  const out = join(folder, "training"),
    next = random(3);
  mkdirSync(out, { recursive: true });
  const lines = [];
  for (let step = 1; step <= 1000; ++step) {
    lines.push({
      step,
      epoch: step / 100,
      loss: 9 / Math.sqrt(step) + next(),
      rate: 1e-3,
      gradient_norm: 1,
      tokens: 1000,
      tokens_per_second: 5000,
      seconds: step,
    });
    if (step % 100 === 0) {
      lines.push({
        step,
        evaluation: "validation",
        loss: 9 / Math.sqrt(step) + 0.4,
        perplexity: 9,
        best: true,
        seconds: step,
      });
      lines.push({
        step,
        heads: Object.fromEntries(
          Array.from({ length: 8 }, (_, i) => [
            `L${i >> 2}.H${i & 3}`,
            {
              rows: 100,
              entropy: 2 - step / 1000 + next() / 5,
              entropy_ratio: 0.9 - step / 2000 + next() / 10,
              confidence: next(),
            },
          ]),
        ),
      });
    }
  }
  writeFileSync(join(out, "log.jsonl"), lines.map((line) => JSON.stringify(line)).join("\n") + '\n{"step": 1001, "lo');
  writeFileSync(
    join(out, "summary.json"),
    JSON.stringify({
      task: "causal_lm",
      architecture: "gpt2",
      parameters: 123456,
      steps: 1000,
      seconds: 1000,
      seed: 0,
      validation: { loss: 1.2, perplexity: 3.3 },
      layers: [
        { name: "L0", heads: 4 },
        { name: "L1", heads: 4 },
      ],
    }),
  );
  return out;
}

export function made_up_sweep() {
  const out = join(folder, "sweep"),
    spread = (mean) => ({ mean, half_interval: 0.5, n: 3 });
  mkdirSync(join(out, "heads=1,seed=0"), { recursive: true });
  writeFileSync(
    join(out, "table.json"),
    JSON.stringify({
      rows: [1, 2, 4, 8].map((heads, i) => ({
        settings: { "model.heads": heads },
        head_dim: String(128 / heads),
        parameters: 1437696,
        perplexity: spread(13 - i),
        bleu: spread(27 + i),
        training_tokens_per_second: spread(3828),
        inference_tokens_per_second: spread(16945),
        qk_rank: spread(80 / heads),
      })),
    }),
  );
  writeFileSync(
    join(out, "heads=1,seed=0", "log.jsonl"),
    [1, 2, 3].map((step) => JSON.stringify({ step, evaluation: "validation", loss: 4 / step })).join("\n") + "\n",
  );
  return out;
}
