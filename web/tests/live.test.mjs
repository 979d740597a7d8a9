// The live page in a real browser, against a stand-in for the server.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { open_page } from "./browser.mjs";
import { serve_mock } from "./mock_server.mjs";

const template = readFileSync(new URL("../dist/page.html", import.meta.url), "utf8");
const live_page = template.replace(
  '<script id="headwise-live" type="application/json">false',
  '<script id="headwise-live" type="application/json">true',
);
// While the server is away, the browser itself reports the failed requests.
const away = [/net::ERR_/, /Failed to load resource/];
const first_bar = (page) => page.locator("#try .output.gated li .number").first();

test("type, look, gate a head, see the change", async () => {
  const server = await serve_mock(live_page);
  const { page, done } = await open_page(`http://127.0.0.1:${server.port}/`);
  await page.waitForSelector("#try .output li");
  assert.equal(await page.locator("#try .map-cell").count(), 72);
  await page.fill("#try textarea", "a b c d e f");
  await page.waitForFunction(() => document.querySelector("#try [role=status]").textContent.startsWith("8 tokens"));
  await page.click('#try [data-head="L3.H1"]');
  assert.equal(await page.locator("#try .tokens.left .token").count(), 8);
  const before = await page.locator("#try .output li .number").first().innerText();
  await page.click("#try .toggle-head");
  await first_bar(page).waitFor();
  assert.notEqual(await first_bar(page).innerText(), before);
  assert.equal(await page.getAttribute('#try [data-head="L3.H1"]', "data-gate"), "off");
  // A gate in between, a whole layer, and all open again.
  await page.locator("#try .gate-line input[type=range]").fill("0.5");
  await page.waitForSelector("#try .chip:has-text('0.5')");
  await page.selectOption("#try .card-head select", "L2");
  await page.click("#try .close-group");
  await page.waitForSelector("#try h4:has-text('13 gates')");
  await page.click("#try .reset");
  await page.waitForFunction(() => document.querySelectorAll("#try .output.gated li").length === 0);
  // Keys in the grid.
  await page.focus('#try [data-head="L0.H0"]');
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("0");
  await page.waitForSelector("#try .chip:has-text('L0.H1 off')");
  await done();
  await server.close();
});

test("a job shows how far it is, gives its result, and can be cancelled", async () => {
  const server = await serve_mock(live_page, { step: 60 });
  const { page, done } = await open_page(`http://127.0.0.1:${server.port}/`);
  await page.click("#try .start-ablation");
  await page.waitForFunction(() => document.querySelector("#try progress")?.value > 0);
  await page.click("#try .cancel");
  await page.waitForSelector("#try .job :text('cancelled')");
  assert.ok(server.requests.some((request) => request.startsWith("DELETE /api/jobs/")));
  await done();
  await server.close();
  const quick = await serve_mock(live_page, { step: 1 });
  const again = await open_page(`http://127.0.0.1:${quick.port}/`);
  await again.page.click("#try .start-ablation");
  await again.page.waitForSelector("#try .job svg");
  await again.page.click("#try .start-plan");
  await again.page.click("#try .apply-plan");
  await again.page.waitForSelector("#try h4:has-text('18 gates')");
  await again.done();
  await quick.close();
});

test("the server goes away and comes back", async () => {
  const server = await serve_mock(live_page);
  const { page, done } = await open_page(`http://127.0.0.1:${server.port}/`, { allow: away });
  await page.waitForSelector("#try .output li");
  await page.click('#try [data-head="L1.H1"]');
  await page.click("#try .toggle-head");
  await page.waitForSelector("#try .output.gated li");
  await page.click("#try .start-ablation");
  await server.close();
  await page.waitForSelector("#try .banner:not([hidden])");
  await page.fill("#try textarea", "typed while nobody listened");
  const returned = await serve_mock(live_page, { port: server.port });
  await page.waitForSelector("#try .banner[hidden]", { state: "attached" });
  await page.waitForFunction(() => document.querySelector("#try [role=status]").textContent.startsWith("6 tokens"));
  assert.ok((await page.locator("#try .output.gated li").count()) > 0, "gates are kept");
  await page.waitForSelector("#try .job :text('gone')");
  await done();
  await returned.close();
});

test("whatever is typed stays text", async () => {
  const server = await serve_mock(live_page);
  const { page, done } = await open_page(`http://127.0.0.1:${server.port}/`);
  await page.waitForSelector("#try .output li");
  await page.fill(
    "#try textarea",
    "</script><script>window.hacked=1</script> <img/src=x/onerror=window.hacked=2> שלום 👩‍👩‍👧‍👦",
  );
  await page.waitForFunction(() => document.querySelector("#try [role=status]").textContent.startsWith("6 tokens"));
  assert.match(await page.locator("#try .tokens.left").innerText(), /<img/);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  await page.fill("#try textarea", "ab ".repeat(3333));
  await page.waitForFunction(() =>
    /cut to the first 128/.test(document.querySelector("#try [role=status]").textContent),
  );
  await page.fill("#try textarea", "x".repeat(10_001));
  await page.waitForFunction(() => /At most 10,000/.test(document.querySelector("#try [role=status]").textContent));
  await page.fill("#try textarea", "");
  await page.waitForFunction(() => /Type something/.test(document.querySelector("#try [role=status]").textContent));
  await done();
  await server.close();
});
