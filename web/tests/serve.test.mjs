// The live page against headwise serve itself, on a small model.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { join } from "node:path";
import test from "node:test";
import { open_page } from "./browser.mjs";
import { folder, program, slow_model, small_study } from "./studies.mjs";

/// The program, once it listens; it ends with the test. `--json` says where in one document.
async function serve(test, what, port = 0) {
  const child = spawn(program, ["serve", ...what, "--port", String(port), "--json", "--quiet"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  test.after(() => child.kill("SIGKILL"));
  let text = "";
  for await (const line of createInterface({ input: child.stdout })) {
    text += line;
    try {
      return {
        url: JSON.parse(text).url,
        close: (signal = "SIGTERM") =>
          new Promise((resolve) => {
            child.once("exit", resolve);
            child.kill(signal);
          }),
      };
    } catch {
      /* not whole yet */
    }
  }
  throw new Error("headwise serve ended");
}

const output = (page, which) => page.locator(`#try .output${which}`).innerText();

/// Jobs of the page get a text of this many lines.
async function give_jobs(page, lines) {
  const text = Array(lines).fill("w5 w17 w12 w7 ".repeat(8)).join("\n");
  await page.unroute("**/api/jobs");
  await page.route("**/api/jobs", (route) =>
    route.continue({ postData: JSON.stringify({ ...route.request().postDataJSON(), text }) }),
  );
}

test("serve: a job that waits and a job that runs are cancelled", async (test) => {
  const server = await serve(test, [slow_model()]);
  const { page, done } = await open_page(server.url);
  await page.waitForSelector("#try .start-ablation");
  await give_jobs(page, 512);
  for (const start of [".start-ablation", ".start-ablation", ".start-plan"]) await page.click(`#try ${start}`);
  await page.waitForFunction(() => document.querySelectorAll("#try .job .cancel").length === 3);
  // The newest stands first: so the one that runs is cancelled before those that wait.
  for (let left = 3; left > 0; --left) await page.locator("#try .job .cancel:enabled").last().click();
  await page.waitForFunction(() => document.querySelectorAll("#try .job .cancel").length === 0);
  assert.deepEqual(await page.locator("#try .job [role=status]").allInnerTexts(), Array(3).fill("cancelled"));
  await give_jobs(page, 2);
  await page.click("#try .start-ablation");
  await page.waitForSelector("#try .job svg");
  await done();
  await server.close();
});

test("serve: type, gate, see the change, ablate; killed and started again", async (test) => {
  const study = small_study("bert"),
    what = [join(folder, "bert"), study];
  const server = await serve(test, what);
  const { page, done } = await open_page(server.url, { allow: [/net::ERR_/, /Failed to load resource/] });
  await page.waitForSelector("#try .output");
  await page.fill("#try textarea", "w5 w17 [MASK] w12 w7");
  await page.waitForFunction(() => document.querySelector("#try [role=status]").textContent.startsWith("7 tokens"));
  const shown = await page.locator("#try .map-cell").count();
  assert.equal(shown, await page.locator("#heads [data-head]").count());
  const before = await output(page, ":not(.gated)");
  await page.click('#try [data-head="L0.H0"]');
  assert.equal(await page.locator("#try .tokens.left .token").count(), 7);
  await page.click("#try .toggle-head");
  await page.waitForSelector("#try .output.gated li");
  await page.click("#try .close-group");
  await page.waitForFunction(
    (heads) => document.querySelector("#try .output.gated h4").textContent.includes(`${heads} gates`),
    await page.locator('#try [data-head^="L0."]').count(),
  );
  assert.notEqual((await output(page, ".gated")).split("\n").slice(1).join(), before.split("\n").slice(1).join());
  await page.click("#try .start-ablation");
  await page.waitForSelector("#try .job svg");

  await server.close("SIGKILL");
  await page.waitForSelector("#try .banner:not([hidden])");
  const returned = await serve(test, what, new URL(server.url).port);
  await page.waitForSelector("#try .banner[hidden]", { state: "attached" });
  await page.fill("#try textarea", "w5 w17");
  await page.waitForFunction(() => document.querySelector("#try [role=status]").textContent.startsWith("4 tokens"));
  assert.ok((await page.locator("#try .chip").count()) > 0, "gates are kept");
  await done();
  await returned.close();
});
