// Opens pages in Chromium and tells what a person would meet: violations of accessibility and of the content policy,
// errors, a page wider than its window, what the keyboard reaches. Argument: JSON,
// {url, paths: [...], headers?, javaScript?, token?, issuer?, pictures?}; pictures is a directory. Prints one JSON object.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
const require = createRequire(process.env.CROSSLOAD_NPM + "/");
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const order = JSON.parse(process.argv[2]);
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1"],
});
const hasScripts = order.javaScript ?? true;

// What the keyboard reaches, in order, until it begins anew.
async function reached(page) {
  const keys = [];
  await page.evaluate(() => document.activeElement.blur());
  for (let step = 0; step < 60; step += 1) {
    await page.keyboard.press("Tab");
    const at = await page.evaluate(() => {
      const place = document.activeElement;
      if (place === document.body) return null;
      const box = place.getBoundingClientRect();
      return {
        what: `${place.tagName} ${(place.textContent || place.getAttribute("aria-label") || place.name || "").trim().slice(0, 40)}`,
        shows: getComputedStyle(place).outlineStyle !== "none",
        visible: box.width > 0 && box.height > 0,
      };
    });
    if (at === null) break;
    keys.push(at);
  }
  return keys;
}

async function violations(session) {
  const result = await session.send("Runtime.evaluate", {
    expression: "axe.run(document, { resultTypes: ['violations'] }).then((r) => JSON.stringify(r.violations.map((v) => ({ id: v.id, nodes: v.nodes.slice(0, 3).map((n) => n.html + ' ' + (n.failureSummary ?? '')) }))))",
    awaitPromise: true,
    returnByValue: true,
  });
  return JSON.parse(result.result.value);
}

const found = [];
const context = await browser.newContext({
  extraHTTPHeaders: order.headers ?? {},
  ignoreHTTPSErrors: true,
  javaScriptEnabled: hasScripts,
});
if (order.token) {
  const page = await context.newPage();
  await page.goto(`${order.url}/sign-in`);
  await page.fill("input[name=token]", order.token);
  await Promise.all([page.waitForNavigation(), page.click("main button")]);
  await page.close();
}
if (order.issuer) {
  // As a person does: by the link on a page that refuses, which the issuer leads back to. Each step is a navigation.
  const page = await context.newPage();
  const begin = order.url + order.paths[0];
  await page.goto(begin);
  await page.click("main a[href^='/sign-in/issuer?']");
  await page.waitForSelector("form[action='/sign-out']", { timeout: 20000 });
  await page.waitForURL((url) => url.href === begin, { timeout: 20000 });
  await page.close();
}
for (const path of order.paths) {
  const page = await context.newPage();
  const errors = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && errors.push(message.text()));
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("requestfailed", (request) => errors.push(`${request.url()}: ${request.failure().errorText}`));
  const answer = await page.goto(order.url + path, { waitUntil: "load" });
  if (order.waitFor) await page.waitForFunction(order.waitFor, null, { timeout: 20000 });
  const session = await context.newCDPSession(page);
  // The page's own policy lets no foreign script in; the debugger does.
  if (hasScripts) await session.send("Runtime.evaluate", { expression: axe });
  // The page is opened once, and meets every window and scheme as when a person turns a telephone.
  for (const width of order.widths ?? [390, 1440]) {
    await page.setViewportSize({ width, height: 900 });
    for (const colorScheme of order.schemes ?? ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      const one = { path, at: page.url(), width, colorScheme, status: answer.status(), errors };
      one.viewer = (await page.locator(".viewer").allInnerTexts()).join(" ");
      one.cookies = (await context.cookies()).map(({ name, httpOnly, secure, sameSite }) => ({ name, httpOnly, secure, sameSite }));
      if (order.pictures) {
        one.screenshot = `${order.pictures}/${path.replace(/[^a-z]/g, "_")}-${width}-${colorScheme}.png`;
        await page.screenshot({ path: one.screenshot, fullPage: true });
      }
      if (hasScripts) {
        one.wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        one.keys = await reached(page);
        one.axe = await violations(session);
      }
      found.push(one);
    }
  }
  await page.close();
}
await browser.close();
console.log(JSON.stringify(found));
