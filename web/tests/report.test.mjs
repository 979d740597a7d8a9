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
  run,
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
  const url = report(small_study("bert")),
    { page, done } = await all_sections(url);
  assert.match(await text_of(page, "#answer"), /heads/);
  assert.match(await text_of(page, "#made"), /lines\.txt/);
  assert.ok(!readFileSync(new URL(url), "utf8").includes(folder), "a path of this machine");
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
  assert.match(await text_of(page, "#head .attention [role=status]"), /attends to/);
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
  assert.match(await text_of(page, "#head .attention [role=status]"), /the attends to/);
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

const square = (layers, heads) => Array.from({ length: layers }, (_, l) => [`L${l}`, heads]);
const phone = { viewport: { width: 390, height: 844 } };
const in_view = (page, selector) =>
  page.$eval(selector, (element) => {
    const { top, left, right } = element.getBoundingClientRect();
    return top > -2 && top < 0.5 * window.innerHeight && left >= 0 && right <= window.innerWidth;
  });

test("a phone: the whole map, and all of the navigation", async () => {
  const { page, done } = await open_page(report(made_up_study("phone", square(3, 16))), phone);
  const outside = await page.$$eval("#heads [data-head], nav a, header.top > button, #answer dd", (found) =>
    found
      .filter((one) => {
        const { left, right } = one.getBoundingClientRect();
        return left < 0 || right > window.innerWidth;
      })
      .map((one) => one.textContent),
  );
  assert.deepEqual(outside, []);
  assert.ok((await page.locator("nav a").count()) > 5);
  assert.ok(await page.locator("#heads .scroll-hint").isHidden());
  assert.ok(
    await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth),
    "wider than the screen",
  );
  await done();

  const wide = await open_page(report(made_up_study("wide-map", square(2, 40))), phone);
  assert.match(await text_of(wide.page, "#heads .scroll-hint"), /scroll it sideways/);
  await wide.page.$eval("#heads .scroller", (scroller) => scroller.scrollTo({ left: 1e4 }));
  await wide.page.waitForSelector("#heads .more-before:not(.more-after)");
  await wide.done();
});

test("the address names a head: it opens and is scrolled to", async () => {
  const url = report(
    made_up_study("address", [...square(8, 12).map(([name, n]) => [`enc.${name}`, n]), ["dec.L3", 4], ["cross.L3", 4]]),
  );
  for (const options of [{}, phone]) {
    const { page, done } = await open_page(`${url}#dec.L3.H1`, options);
    assert.match(await text_of(page, "#head h2"), /dec\.L3\.H1/);
    assert.ok(await in_view(page, "#head h2"), "scrolled to the head");
    await page.evaluate(() => window.scrollTo(0, 0));
    await page.evaluate(() => (location.hash = "#enc.L7.H10"));
    await page.waitForFunction(() => document.querySelector("#head h2").textContent.includes("enc.L7.H10"));
    assert.ok(await in_view(page, "#head h2"), "scrolled to the next head");
    assert.equal(await page.getAttribute('#heads [data-head="enc.L7.H10"]', "aria-selected"), "true");
    await done();
  }
  const { page, done } = await open_page(`${url}#pruning`);
  assert.ok(await in_view(page, "#pruning h2"), "scrolled to a section");
  await done();
});

/// A study of three heads with known roles.
const known_roles = (parts) => {
  const role = (name, source, detail) => ({
    role: name,
    ...(detail ? { detail } : {}),
    score: 0.7,
    baseline: 0.2,
    low: 0.6,
    high: 0.8,
    n: 400,
    source,
  });
  const roles = {
    "L0.H0": [role("relation", "probes", "nummod to_head")],
    "L0.H1": [role("coreference", "probes"), role("delimiter", "data", "[SEP]")],
    "L0.H2": [role("relation", "data", "nsubj to_dependent")],
    "L0.H3": [role("previous", "data")],
    "L1.H0": [role("rare", "probes")],
  };
  for (const head of parts.verdict.heads) head.roles = roles[head.head] ?? [role("unclear", "data")];
};

test("roles on probe sentences only are hollow, and counted apart", async () => {
  const { page, done } = await open_page(report(made_up_study("hollow", square(2, 4), { change: known_roles })));
  const cell = (head) => page.locator(`#heads [data-head="${head}"]`);
  const look = (head) =>
    cell(head).evaluate((one) => {
      const { backgroundColor, boxShadow } = getComputedStyle(one);
      return { filled: backgroundColor !== "rgba(0, 0, 0, 0)", outlined: boxShadow !== "none", text: one.innerText };
    });
  assert.deepEqual(await look("L0.H0"), { filled: false, outlined: true, text: "R" });
  assert.deepEqual(await look("L1.H0"), { filled: false, outlined: true, text: "T" });
  assert.deepEqual(await look("L0.H2"), { filled: true, outlined: false, text: "R" });
  assert.deepEqual(await look("L0.H1"), { filled: true, outlined: false, text: "D" }); // a role on data comes first
  const answer = await text_of(page, "[data-answer=roles]");
  assert.match(answer, /3 of 8 heads have a role/);
  assert.match(answer, /2 more on probe sentences only/);
  assert.match(answer, /relation\s+1\s/);
  assert.match(await text_of(page, "#heads .legend"), /hollow: on probe sentences only\s+2/);
  await page.click("#heads .legend [data-role=probes]");
  assert.deepEqual(await page.$$eval("#heads .cell:not(.out)", (found) => found.map((one) => one.dataset.head)), [
    "L0.H0",
    "L1.H0",
  ]);
  await page.click("#heads .legend [data-role=probes]");
  // Hollow is a matter of roles, not of measures.
  await page.selectOption("#heads select", "entropy");
  assert.ok((await look("L0.H0")).filled);
  await cell("L0.H0").click();
  assert.match(await text_of(page, "#head .roles"), /on probe sentences only/);
  assert.equal(await page.locator("#head h2 .badge.hollow").count(), 1);
  await done();
});

test("one vocabulary: names, letters and filters are the program's", async () => {
  const { page, done } = await open_page(report(made_up_study("words", square(2, 4), { change: known_roles })));
  const program_roles = run("judge", "--roles");
  for (const key of await page.$$eval("#heads .legend [data-role]:not([data-role=probes])", (found) =>
    found.map((one) => ({ role: one.dataset.role, letter: one.querySelector(".badge").textContent })),
  ))
    assert.ok(program_roles.includes(` ${key.letter}  ${key.role} `), `${key.letter} ${key.role}`);
  const found = async (text) => {
    await page.fill("#heads input[type=search]", text);
    return page.$$eval("#heads .cell:not(.out)", (cells) => cells.map((one) => one.dataset.head).join(" "));
  };
  assert.equal(await found("role:relation"), "L0.H0 L0.H2");
  assert.equal(await found("role:syntactic"), "L0.H0 L0.H2");
  assert.equal(await found("role:positional"), "L0.H3");
  assert.equal(await found("role:delimiter"), "L0.H1");
  assert.equal(await found("role:prev"), "L0.H3"); // while it is typed
  assert.equal(await found("role:syntax"), "");
  assert.equal(await found("role:relation, L1.H0"), "L0.H0 L0.H2 L1.H0");
  assert.equal(await found("L1"), "L1.H0 L1.H1 L1.H2 L1.H3");
  assert.equal(await found("numeral modifier"), "L0.H0");
  assert.match(await text_of(page, "#heads [role=status]"), /1 of 8/);
  await page.click('#heads [data-head="L0.H2"]');
  assert.match(await text_of(page, "#head .roles"), /nsubj: nominal subject → dependent/);
  await done();
});

test("the answer comes first: cost beside random heads, and what does not support it", async () => {
  const shown = await open_page(report(made_up_study("answered", square(2, 4))));
  for (const [id, words] of Object.entries({
    roles: /of 8 heads have a role/,
    removable: /1 essential, 2 undecided: 100 texts are too few/,
    cost: /4\.8 % on 104 held-out texts; random heads/,
    savings: /saves 6 %[\s\S]*removing every head saves no more[\s\S]*It pays/,
    sure: /costs less than as many heads at random, beyond its 95 % interval/,
  }))
    assert.match(await text_of(shown.page, `[data-answer=${id}]`), words);
  assert.equal(await shown.page.locator("#answer .notice").count(), 0);
  assert.match(await text_of(shown.page, "#pruning"), /The cost on held-out examples[\s\S]*104 examples/);
  await shown.done();

  // Without random heads, nothing is said about them.
  const without = ({ summary }) => {
    summary.held_out.random = { draws: 0 };
    summary.words.comparison = "";
  };
  const alone = await open_page(report(made_up_study("no draws", square(2, 4), { change: without })));
  assert.doesNotMatch(await text_of(alone.page, "#answer"), /costs (no )?less than/);
  assert.match(await text_of(alone.page, "#pruning"), /The cost on held-out examples/);
  assert.doesNotMatch(await text_of(alone.page, "#pruning"), /the median of/);
  await alone.done();

  const change = ({ plan, summary, verdict }) => {
    plan.supported = false;
    plan.reasons = ["86 of 144 heads are undecided"];
    summary.help = "About 900 more sentences: --input FILE";
    summary.words = {};
    summary.held_out = { examples: 0, reason: "there is only one text" };
    const standings = ["essential", "replaceable", "harmful", "undecided", "undecided"];
    verdict.heads.forEach((head, i) => (head.standing = standings[i % 5]));
  };
  const { page, done } = await open_page(report(made_up_study("unsupported", square(2, 5), { change })));
  const notice = await text_of(page, "#answer .notice");
  assert.match(notice, /do not support this plan[\s\S]*86 of 144 heads[\s\S]*About 900 more sentences/);
  assert.ok(
    await page.evaluate(() => {
      const top = (selector) => document.querySelector(selector).getBoundingClientRect().top;
      return top("#answer .notice") < top("#answer [data-answer]");
    }),
    "above the answers",
  );
  assert.match(
    await text_of(page, "[data-answer=removable]"),
    /2 essential, 2 replaceable, 2 harmful, 4 undecided: 100 texts are too few\.\s+4 of 10 heads can be removed alone/,
  );
  assert.equal(await page.locator("[data-answer=cost]").count(), 0);
  await done();
});

test("where no interval excludes 0, the figure says so", async () => {
  const change = ({ evidence, verdict }) => {
    for (const list of [evidence.heads, verdict.heads.map((head) => head.importance)])
      for (const { ablation_zero } of list) Object.assign(ablation_zero, { low: -0.01, high: 0.05 });
  };
  const { page, done } = await open_page(report(made_up_study("crossing", square(2, 4), { change })));
  assert.match(await text_of(page, "#importance .above"), /Every interval includes 0/);
  assert.match(await text_of(page, "#head .above"), /Every interval includes 0/);
  await done();
  const clear = await open_page(report(made_up_study("not-crossing", square(2, 4))));
  assert.equal(await clear.page.locator(".above").count(), 0);
  await clear.done();
});

test("attention without special tokens", async () => {
  const { page, done } = await open_page(report(made_up_study("special", square(2, 4))));
  const tokens = () => page.locator("#head .tokens.left .token").allInnerTexts(),
    toggle = page.locator("#head .special-toggle input");
  assert.equal((await tokens()).length, 16);
  assert.equal((await tokens())[0], "[CLS]");
  await toggle.check();
  assert.equal((await tokens()).length, 14);
  assert.ok(!(await page.locator("#head .attention").innerText()).includes("[CLS]"));
  assert.match(await text_of(page, "#head .special-toggle"), /scaled to sum to 1[\s\S]*% of the weight is on special/);
  assert.equal(await page.evaluate(() => document.activeElement?.type), "checkbox");
  // Each token has one large weight: it is all that is left, if it is not on a special token.
  const said = [];
  for (let i = 0; i < 14; ++i) {
    await page.locator("#head .tokens.left .token").nth(i).hover();
    said.push(await text_of(page, "#head .attention [role=status]"));
  }
  assert.ok(said.every((words) => /\b(100|0)\s%,/.test(words)) && said.some((words) => /100\s%/.test(words)), said[0]);
  await page.click("#head [data-step='1']");
  assert.equal((await tokens()).length, 14); // chosen once for all heads
  await toggle.uncheck();
  assert.equal((await tokens()).length, 16);
  await done();
});

test("no path of a machine is on the page", async () => {
  const change = ({ evidence, summary }) => {
    evidence.corpus.text.name = "/home/someone/reviews of films.txt";
    evidence.corpus.treebank = { name: "../shared/ud/dev.conllu", sha256: "0", texts: 3, tokens: 30 };
    summary.made.command = "headwise study org/model --input '/home/someone/reviews of films.txt' --data ~/x/y.tsv";
  };
  const url = report(made_up_study("paths", square(2, 4), { change })),
    { page, done } = await open_page(url);
  const made = await text_of(page, "#made");
  assert.match(made, /reviews of films\.txt[\s\S]*dev\.conllu/);
  assert.match(made, /headwise study org\/model --input 'reviews of films\.txt' --data y\.tsv/);
  assert.doesNotMatch(readFileSync(new URL(url), "utf8").split('id="headwise-data"')[1], /someone|shared|~\//);
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
