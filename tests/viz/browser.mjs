// Opens a replay in headless Chromium, plays it, scrubs to some times and takes pictures.
//
//   node browser.mjs CHROMIUM PAGE DURATION OUT TIME...
//
// Prints JSON: the requests made and refused, errors of the page, the time shown before and after
// playing, and for each TIME [s of playing] the time shown after the scrub; OUT/k.png are pictures.
// It must lie where `import "puppeteer-core"` finds the package.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const [chromium, file, duration, out, ...times] = process.argv.slice(2);
const profile = mkdtempSync(join(tmpdir(), "chromium-"));
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const browser = await puppeteer.launch({
  executablePath: chromium,
  userDataDir: profile,
  protocolTimeout: 240000,
  args: [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
  ],
});
try {
  const page = await browser.newPage();
  await page.setViewport({ width: 900, height: 640 });
  const report = { requests: [], refused: [], errors: [], played: [], scrubbed: [] };
  page.on("pageerror", (error) => report.errors.push(String(error)));
  await page.setRequestInterception(true);
  page.on("request", (request) => {
    const local = /^(file|data|blob):/.test(request.url());
    (local ? report.requests : report.refused).push(request.url().slice(0, 100));
    local ? request.continue() : request.abort();
  });
  const sockets = await page.createCDPSession();
  await sockets.send("Network.enable");
  sockets.on("Network.webSocketCreated", ({ url }) => report.refused.push(url));

  await page.goto(pathToFileURL(file).href);
  const slider = ".mantine-Slider-track";
  await page.waitForSelector(slider, { timeout: 120000 });
  await page.waitForSelector("canvas");
  await pause(3000);
  const time = () =>
    page.$eval("input.mantine-NumberInput-input", (input) => parseFloat(input.value));
  // It is the button beside the slider; the page plays at once, so that this one halts it.
  const button = await page.evaluateHandle(
    (slider) => document.querySelector(slider).closest(".mantine-Paper-root").querySelector("button"),
    slider,
  );
  const click = () => button.evaluate((element) => element.click());
  await click();
  await pause(500);
  report.played.push(await time());
  await click();
  await pause(1500);
  await click();
  await pause(500);
  report.played.push(await time());

  // Chromium draws in software here, of which the page warns; that would cover the picture.
  for (const close of await page.$$(".mantine-Notification-closeButton")) {
    await close.evaluate((element) => element.click());
  }
  for (const [index, target] of times.entries()) {
    const box = await (await page.$(slider)).boundingBox();
    const x = box.x + (box.width * parseFloat(target)) / parseFloat(duration);
    await page.mouse.click(x, box.y + box.height / 2);
    await pause(2500);
    report.scrubbed.push(await time());
    await page.screenshot({ path: join(out, `${index}.png`) });
  }
  console.log(JSON.stringify(report));
} finally {
  await browser.close();
  rmSync(profile, { recursive: true, force: true });
}
