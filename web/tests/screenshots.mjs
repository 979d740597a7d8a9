// The pictures of README and docs/report.md, from a real study. usage: screenshots.mjs STUDY [FOLDER]
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { close_browser, open_page } from "./browser.mjs";
import { serve_mock } from "./mock_server.mjs";
import { report, root } from "./studies.mjs";

const [study, out = join(root, "docs/images")] = process.argv.slice(2);
if (!study) { console.error("usage: ./dev page --screenshots STUDY"); process.exit(2); }
const url = report(study), size = { viewport: { width: 1180, height: 860 } };

async function shoot(page, name, selector, { below = 0, height } = {}) {
  const box = selector ? await page.locator(selector).boundingBox() : { x: 0, y: 0, width: 1180, height: 860 };
  const top = await page.evaluate(() => window.scrollY), margin = selector ? 14 : 0;
  await page.screenshot({ path: join(out, `${name}.png`), fullPage: true, clip: { x: Math.max(0, box.x - margin), y: Math.max(0, box.y + top - margin), width: Math.min(1180, box.width + 2 * margin), height: Math.min(height ?? 1e9, box.height + 2 * margin + below) } });
  console.log(join(out, `${name}.png`));
}

{
  const { page, done } = await open_page(url, size);
  await shoot(page, "report");
  const head = process.env.HEADWISE_HEAD ?? "L3.H1";
  if (await page.locator(`#heads [data-head="${head}"]`).count()) await page.click(`#heads [data-head="${head}"]`);
  await page.mouse.move(2, 2);
  await shoot(page, "report-head", "#head", { height: 900 });
  await shoot(page, "report-pruning", "#pruning");
  await shoot(page, "report-composition", "#composition");
  await done();
}
{
  const { page, done } = await open_page(url, { ...size, colorScheme: "dark" });
  await page.selectOption("#heads select", "ablation_zero");
  await shoot(page, "report-dark", "#heads");
  await done();
}
{
  // The stand-in for the server knows no model: its maps are made up.
  const live = process.env.HEADWISE_SERVER ? null : await serve_mock(readFileSync(new URL(url), "utf8").replace('<script id="headwise-live" type="application/json">false', '<script id="headwise-live" type="application/json">true'));
  if (process.env.HEADWISE_SERVER) {
    const { page, done } = await open_page(process.env.HEADWISE_SERVER, size);
    await page.waitForSelector("#try .output li, #try .output p.big");
    await page.click('#try [data-head="L3.H1"]');
    await page.click("#try .toggle-head");
    await page.waitForSelector("#try .output.gated li, #try .output.gated p.big");
    await shoot(page, "live", "#try", { height: 1000 });
    await done();
  }
  await live?.close();
}
await close_browser();
