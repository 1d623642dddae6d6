// Parts of the page, made anew by the server and put in place: only for what is the reader's own, never for a crowd.

import { start as offerToTell } from "./tell.js";

let running = false;
let again = false;
let failed = 0;
let later; // the timer of the next try
const wanted = new Set();

function swap(next, selector) {
  const [before, after] = [document.querySelector(selector), next.querySelector(selector)];
  if (!before || !after) return;
  const focused = before.contains(document.activeElement);
  const part = document.importNode(after, true);
  // What the socket says of itself is not the server's to know.
  const [said, place] = [before.querySelector("[data-connection]"), part.querySelector("[data-connection]")];
  if (said && place) place.replaceWith(said);
  before.replaceWith(part);
  if (focused) part.querySelector("button:not(:disabled), a.btn, a")?.focus();
}

/** Fetches this page and replaces the first element of each selector that was asked for. Calls that come meanwhile are one. */
export function refresh(selector) {
  wanted.add(selector);
  if (running) again = true;
  else run();
}

async function run() {
  running = true;
  clearTimeout(later);
  let these = [];
  try {
    do {
      again = false;
      these = [...wanted]; // what is asked for from here on may be newer than the answer, and is fetched once more
      wanted.clear();
      const response = await fetch(location.href, { cache: "no-store", headers: { accept: "text/html" }, redirect: "manual" });
      if (response.status === 429 || response.status >= 500) throw new Error("busy");
      // The page is not his any more, or is gone: what is shown stays, and a click tells why.
      if (response.ok) put(new DOMParser().parseFromString(await response.text(), "text/html"), these);
      failed = 0;
    } while (again);
  } catch {
    // Busy or away. What was to be shown counts as told by now, so that no later message would bring it: ask again.
    for (const each of these) wanted.add(each);
    failed += 1;
    later = setTimeout(run, Math.min(500 * 2 ** failed, 15_000) * (0.5 + Math.random()));
  } finally {
    running = false;
  }
}

function put(next, selectors) {
  for (const each of selectors) swap(next, each);
  document.title = next.title;
  offerToTell(); // its button may have stood in a part that is gone
}
