// Reports in a real browser: every section, of every kind of folder, with pointer and keyboard.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { open_page } from "./browser.mjs";
import {
  folder,
  made_up_study,
  made_up_sweep,
  made_up_training,
  minilm_study,
  report,
  small_study,
  url_of,
} from "./studies.mjs";

const study_sections = [
  "answer",
  "heads",
  "head",
  "layers",
  "composition",
  "redundancy",
  "importance",
  "pruning",
  "made",
];
const text_of = (page, selector) => page.locator(selector).innerText();

async function all_sections(url, sections = study_sections) {
  const { page, done } = await open_page(url);
  const shown = await page.$$eval("main > section", (found) => found.map((section) => section.id));
  assert.deepEqual(shown, sections);
  for (const id of sections) {
    const size = await page.$eval(`#${id}`, (section) => ({
      height: section.getBoundingClientRect().height,
      text: section.innerText.trim().length,
      drawings: section.querySelectorAll("svg, canvas, table, dl, [role=grid]").length,
    }));
    assert.ok(size.height > 60 && size.text > 20 && size.drawings > 0, `${id}: ${JSON.stringify(size)}`);
  }
  // Nothing is wider than the screen, and everything that can be pressed has a name.
  assert.ok(
    await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth),
    "wider than the screen",
  );
  const nameless = await page.$$eval("button, select, input, textarea, a[href], [role=img]", (found) =>
    found
      .filter(
        (one) =>
          !(one.getAttribute("aria-label") || one.textContent.trim() || one.closest("label")?.textContent.trim()),
      )
      .map((one) => one.outerHTML.slice(0, 120)),
  );
  assert.deepEqual(nameless, []);
  return { page, done };
}

test("every section of a small model's study", async () => {
  const { page, done } = await all_sections(report(small_study("bert")));
  assert.match(await text_of(page, "#answer"), /heads/);
  await done();
});

test("the page that study itself leaves", async () => {
  const { done } = await all_sections(url_of(join(small_study("bert"), "report.html")));
  await done();
});

test("a pruned model, whose layers have different heads left", async () => {
  const { page, done } = await all_sections(report(small_study("bert_pruned")));
  const rows = await page.$$eval("#heads .grid-row[role=row]", (found) =>
    found.map((row) => row.querySelectorAll("[data-head]").length),
  );
  const evidence = JSON.parse(readFileSync(join(small_study("bert_pruned"), "evidence.json"), "utf8"));
  assert.equal(
    rows.reduce((a, b) => a + b),
    evidence.heads.length,
  );
  assert.ok(new Set(rows).size > 1, "its layers are not uneven");
  await done();
});

test("MiniLM", { skip: minilm_study() ? false : "no MiniLM here: ./dev model minilm fetches it" }, async () => {
  const { page, done } = await all_sections(report(minilm_study()));
  assert.equal(await page.locator("#heads [data-head]").count(), 72);
  await done();
});

test("encoder, decoder and cross attention", async () => {
  const study = made_up_study(
    "two-sided",
    [
      ["enc.L0", 4],
      ["enc.L1", 3],
      ["dec.L0", 4],
      ["dec.L1", 1],
      ["cross.L0", 4],
      ["cross.L1", 2],
    ],
    { target_tokens: ["<s>", "le", "chat"] },
  );
  const { page, done } = await all_sections(report(study));
  assert.deepEqual(await page.$$eval("#heads .grid-kind h3", (found) => found.map((one) => one.textContent)), [
    "Encoder",
    "Decoder",
    "Cross attention",
  ]);
  await page.click('#heads [data-head="cross.L1.H1"]');
  assert.equal(await page.locator("#head .tokens.left .token").count(), 3);
  assert.equal(await page.locator("#head .tokens.right .token").count(), 16);
  await done();
});

test("evidence alone is judged", async () => {
  const study = small_study("bert"),
    alone = join(folder, "alone");
  const { mkdirSync, copyFileSync } = await import("node:fs");
  mkdirSync(alone, { recursive: true });
  copyFileSync(join(study, "evidence.json"), join(alone, "evidence.json"));
  const { done } = await all_sections(
    report(alone),
    study_sections.filter((id) => id !== "pruning"),
  );
  await done();
});

test("a training and a sweep", async () => {
  const training = await all_sections(report(made_up_training()), ["answer", "training", "made"]);
  await training.page.selectOption("#training select", "confidence");
  assert.match(await training.page.getAttribute("#training figure:nth-of-type(2) svg", "aria-label"), /Confidence/);
  await training.done();
  const sweep = await all_sections(report(made_up_sweep()), ["answer", "training", "made"]);
  assert.equal(await sweep.page.locator("#training tbody tr").count(), 4);
  await sweep.done();
});

test("pick a measure, open a head, hover, filter, dark", async () => {
  const study = made_up_study(
    "middle",
    Array.from({ length: 12 }, (_, l) => [`L${l}`, 12]),
  );
  const { page, done } = await open_page(report(study));
  const cell = (head) => `#heads [data-head="${head}"]`,
    color = (head) => page.$eval(cell(head), (one) => getComputedStyle(one).backgroundColor);

  const by_role = await color("L3.H1");
  await page.selectOption("#heads select", "entropy");
  assert.notEqual(await color("L3.H1"), by_role);
  assert.match(await text_of(page, "#heads .legend"), /nats/);
  await page.selectOption("#heads select", "redundancy");
  assert.match(await page.getAttribute(cell("L3.H1"), "aria-label"), /Redundancy/);
  await page.selectOption("#heads select", "role");

  await page.hover(cell("L3.H1"));
  assert.match(await text_of(page, ".tip"), /L3\.H1[\s\S]*made up/);

  await page.click(cell("L5.H7"));
  assert.match(await text_of(page, "#head h2"), /L5\.H7/);
  assert.ok(page.url().endsWith("#L5.H7"));
  const lines = await page.locator("#head .lines path").count();
  await page.locator("#head .tokens.left .token").nth(3).hover();
  assert.ok((await page.locator("#head .lines path").count()) < lines);
  assert.match(await text_of(page, "#head .attention [role=status]"), /looks at/);
  await page.locator("#head canvas.matrix").hover();
  assert.match(await text_of(page, ".tip"), /→.*%/);
  await page.click("#head [data-step='1']");
  assert.match(await text_of(page, "#head h2"), /L5\.H8/);

  await page.click("#heads .legend button >> nth=1");
  const out = await page.locator("#heads .cell.out").count();
  assert.ok(out > 0 && out < 144);
  assert.match(await text_of(page, "#heads [role=status]"), new RegExp(`${144 - out} of 144`));
  await page.click("#heads .legend button >> nth=1");
  await page.fill("#heads input[type=search]", "L2.");
  assert.equal(await page.locator("#heads .cell:not(.out)").count(), 12);
  await page.fill("#heads input[type=search]", "");

  const light = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.click("header.top > button");
  assert.equal(await page.getAttribute("html", "data-theme"), "dark");
  assert.notEqual(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), light);
  await done();

  const dark = await open_page(report(study), { colorScheme: "dark" });
  assert.equal(await dark.page.getAttribute("html", "data-theme"), "dark");
  await dark.done();
});

test("the keyboard alone", async () => {
  const { page, done } = await open_page(
    report(
      made_up_study(
        "keys",
        [
          ["L0", 4],
          ["L1", 0],
          ["L2", 2],
          ["L3", 4],
        ].filter(([, n]) => n > 0),
      ),
    ),
  );
  const focused = () =>
    page.evaluate(() => document.activeElement?.dataset?.head ?? document.activeElement?.textContent);
  await page.keyboard.press("Tab");
  assert.equal(await focused(), "Skip to the content");
  await page.keyboard.press("Enter");
  for (let i = 0; i < 40 && !(await page.evaluate(() => document.activeElement?.closest("#heads [role=grid]"))); ++i)
    await page.keyboard.press("Tab");
  await page.keyboard.press("Home");
  const row = (await focused()).split(".")[0];
  for (const key of ["ArrowUp", "ArrowUp", "ArrowUp"]) await page.keyboard.press(key);
  assert.equal(await focused(), "L0.H0", `from ${row}`);
  await page.keyboard.press("End");
  assert.equal(await focused(), "L0.H3");
  await page.keyboard.press("ArrowDown");
  assert.equal(await focused(), "L2.H1");
  assert.match(await text_of(page, ".tip"), /L2\.H1/);
  await page.keyboard.press("Enter");
  assert.match(await text_of(page, "#head h2"), /L2\.H1/);
  await page.keyboard.press("Escape");
  assert.ok(await page.locator(".tip").isHidden());
  for (let i = 0; i < 60 && !(await page.evaluate(() => document.activeElement?.matches("#head .token"))); ++i)
    await page.keyboard.press("Tab");
  await page.keyboard.press("ArrowDown");
  assert.match(await text_of(page, "#head .attention [role=status]"), /the looks at/);
  await done();
});

test("hostile tokens are text", async () => {
  const long = "x".repeat(10_000),
    tokens = [
      "</script><script>window.hacked=1</script>",
      "<!--",
      "<img src=x onerror=window.hacked=2>",
      "]]>",
      "\u202Eright to left",
      "שלום",
      "مرحبا",
      "👩‍👩‍👧‍👦",
      "\u0000",
      "'\"&amp;",
      long,
      "=1+1",
    ];
  const study = made_up_study(
    "hostile",
    [
      ["L0", 3],
      ["L1", 3],
    ],
    { tokens },
  );
  const rename = (part, change) => {
    const file = join(study, `${part}.json`),
      value = JSON.parse(readFileSync(file, "utf8"));
    change(value);
    writeFileSync(file, JSON.stringify(value));
  };
  rename("verdict", (verdict) => {
    verdict.model.name = tokens[0];
    verdict.heads[0].words = tokens[2];
  });
  rename("evidence", (evidence) => {
    evidence.model.name = tokens[0];
    evidence.corpus.text.name = tokens[1];
  });
  const { page, done } = await all_sections(report(study));
  await page.click('#heads [data-head="L0.H0"]');
  const shown = await page.$$eval("#head .tokens.left .token", (found) => found.map((one) => one.title));
  assert.equal(shown.length, tokens.length);
  assert.equal(shown[0], tokens[0]);
  assert.equal(shown[2], tokens[2]);
  assert.equal(shown[7], tokens[7]);
  assert.ok(shown[10].startsWith("xxxx"));
  assert.match(await text_of(page, "#answer"), /<script>/);
  assert.match(await text_of(page, "#head .lead"), /<img src=x/);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(await page.locator("main img, main script").count(), 0);
  await done();
});

test("numbers and plots can be taken away", async () => {
  const { page, done } = await open_page(
    report(
      made_up_study("away", [
        ["L0", 4],
        ["L1", 4],
      ]),
    ),
  );
  const saved = async (selector) => {
    const [download] = await Promise.all([page.waitForEvent("download"), page.click(selector)]);
    return { name: download.suggestedFilename(), text: readFileSync(await download.path(), "utf8") };
  };
  const json = await saved("#made button >> nth=0");
  assert.equal(JSON.parse(json.text).evidence.heads.length, 8);
  const csv = await saved("#made button >> nth=1");
  assert.equal(csv.text.trim().split("\r\n").length, 9);
  const svg = await saved("#pruning button:text('SVG')");
  assert.match(svg.text, /^<svg[\s\S]*<\/svg>$/);
  assert.doesNotMatch(svg.text, /var\(--/);
  await done();
});

test("it prints: all sections, in light colours", async () => {
  const { page, done } = await open_page(
    report(
      made_up_study("print", [
        ["L0", 4],
        ["L1", 4],
      ]),
    ),
    { colorScheme: "dark" },
  );
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  await page.evaluate(() => window.dispatchEvent(new Event("beforeprint")));
  assert.equal(await theme(), "light");
  const drawn = await page.$$eval("main section", (sections) => sections.map((section) => section.id));
  for (const id of ["answer", "heads", "layers", "importance", "pruning", "made"]) assert.ok(drawn.includes(id), id);
  await page.evaluate(() => window.dispatchEvent(new Event("afterprint")));
  assert.notEqual(await theme(), "light");
  const pdf = await page.pdf({ format: "A4" });
  assert.ok(pdf.length > 20_000);
  await done();
});

test("a narrow screen", async () => {
  const { page, done } = await open_page(
    report(
      made_up_study("narrow", [
        ["L0", 12],
        ["L1", 12],
      ]),
    ),
    { viewport: { width: 400, height: 800 } },
  );
  assert.ok(
    await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth),
    "wider than the screen",
  );
  await done();
});

test("a report of 144 heads is under 3 MB", async () => {
  const study = made_up_study(
    "bert-base",
    Array.from({ length: 12 }, (_, l) => [`L${l}`, 12]),
  );
  report(study);
  const { statSync } = await import("node:fs");
  const bytes = statSync(new URL(report(study))).size;
  assert.ok(bytes < 3_000_000, `${bytes} bytes`);
});
