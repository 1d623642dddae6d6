// Parts of the page, made anew by the server and put in place: only for what is the reader's own, never for a crowd.

import { start as offerToTell } from "./tell.js";

let running = false;
let again = false;
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
export async function refresh(selector) {
  wanted.add(selector);
  if (running) {
    again = true;
    return;
  }
  running = true;
  try {
    do {
      again = false;
      const response = await fetch(location.href, { cache: "no-store", headers: { accept: "text/html" }, redirect: "manual" });
      if (!response.ok) break; // the page keeps what it had; the next message or a reload tells the rest
      const next = new DOMParser().parseFromString(await response.text(), "text/html");
      for (const each of wanted) swap(next, each);
      wanted.clear();
      document.title = next.title;
      offerToTell(); // its button may have stood in a part that is gone
    } while (again);
  } catch {
    // offline: the socket's reconnect brings a snapshot, which asks again
  } finally {
    running = false;
  }
}
