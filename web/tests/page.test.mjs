// All tests of the page, one after the other in one browser.
import { after } from "node:test";
import { close_browser } from "./browser.mjs";
import "./report.test.mjs";
import "./live.test.mjs";
import "./serve.test.mjs";

after(close_browser);
