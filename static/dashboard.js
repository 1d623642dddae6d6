// The control room: parts of the page that the server draws anew and sends over the socket, put in place.

import { refresh } from "./fresh.js";

/** Somebody is typing here, or has typed: what he sees must not be taken from under his hands. */
const isBusy = (part) => [...part.querySelectorAll("input:not([type=hidden]), textarea")].some((field) => field.value || field === document.activeElement);

/** How to find the focused link or button of a part in its successor. */
function focusOf(part) {
  const element = document.activeElement;
  if (!part.contains(element)) return undefined;
  if (element.matches("a[href]")) return `a[href="${CSS.escape(element.getAttribute("href"))}"]`;
  if (element.matches("button[data-action]")) return `button[data-action="${element.dataset.action}"]`;
  return element.tagName.toLowerCase();
}

function put(name, html) {
  const before = document.querySelector(`[data-part="${CSS.escape(name)}"]`);
  const after = new DOMParser().parseFromString(html, "text/html").body.firstElementChild;
  if (!before || !after || isBusy(before)) return;
  const part = document.importNode(after, true);
  const folded = part.querySelectorAll("details");
  before.querySelectorAll("details").forEach((each, i) => folded[i]?.toggleAttribute("open", each.open));
  const focus = focusOf(before);
  before.replaceWith(part);
  if (focus) part.querySelector(focus)?.focus({ preventScroll: true });
}

/** Puts what changed in place; a sale that the page does not show yet brings its list. */
export function show({ parts, all }) {
  for (const [name, html] of Object.entries(parts)) put(name, html);
  const missing = (name) => name.startsWith("sale-") && !document.querySelector(`[data-part="${CSS.escape(name)}"]`);
  if (document.querySelector("[data-sales]") && all.some(missing)) refresh("[data-sales]");
}
