// What a change of an order does to the page: the push, and the part that shows the order.

import { cardOf } from "./card.js";
import { millis, timeOfDay } from "./clock.js";
import { refresh } from "./fresh.js";
import { tell } from "./tell.js";
import { t } from "./words.js";

const KINDS = {
  QUEUED: "order.queued", PENDING: "order.created", PAID: "order.paid", CANCELLED: "order.cancelled",
  REFUNDING: "order.refunding", REFUNDED: "order.refunded", FAILED: "order.failed",
};
const TONES = { "order.created": "good", "order.paid": "good", "order.failed": "bad" };
const seen = new Map(); // order id → highest version that was shown

const shown = (id) => document.querySelector(`[data-order="${CSS.escape(id)}"]`);

/** The one order whose page this is; null elsewhere. */
export const subject = () => document.querySelector("div[data-order]");

function push(kind, order) {
  const place = document.querySelector("[data-push]");
  if (!place) return;
  const here = subject()?.dataset.order === order.id;
  place.className = kind === "order.queued" ? "vh" : "note push";
  place.dataset.event = kind;
  place.dataset.tone = TONES[kind] ?? "warn";
  const b = document.createElement("b");
  b.textContent = kind === "order.queued" ? queued(order) : t(`push-${kind.replace(".", "-")}`);
  const parts = [b];
  if (kind === "order.created" && order.payBefore) {
    const time = timeOfDay(millis(order.payBefore));
    parts.push(` ${t("push-order-created-more", { title: order.voucherTitle, time })}`);
  }
  if (!here && kind !== "order.queued") {
    const a = document.createElement("a");
    a.href = `/orders/${order.id}`;
    a.textContent = t("push-see");
    parts.push(" ", a);
  }
  place.replaceChildren(...parts);
  if (kind !== "order.queued") tell(b.textContent, order);
}

const queued = (order) =>
  Number.isInteger(order.ahead) ? t("push-order-queued", { n: order.ahead }) : t("status-queued");

const fewest = new Map(); // order id → fewest before it that were shown
const marks = []; // [time, how many before it] of the last ten seconds, of the page's own order

function estimate(n) {
  const at = performance.now();
  marks.push([at, n]);
  while (marks.length > 2 && at - marks[0][0] > 10_000) marks.shift();
  const [[from, first]] = marks;
  const place = subject().querySelector("[data-eta]");
  if (!place || first <= n || at - from < 500) return;
  place.textContent = t("stub-queued-eta", { seconds: Math.max(1, Math.ceil(((n + 1) * (at - from)) / (first - n) / 1000)) });
}

function ahead(order) {
  const place = shown(order.id)?.querySelector("[data-ahead]");
  if (!place || !Number.isInteger(order.ahead)) return;
  // Measured by another instance a moment before: the number on the page only falls.
  const n = Math.min(order.ahead, fewest.get(order.id) ?? Infinity);
  fewest.set(order.id, n);
  place.textContent = t("stub-ahead-number", { n });
  if (subject()?.dataset.order !== order.id) return;
  push("order.queued", { ...order, ahead: n });
  estimate(n);
}

function isNews(order) {
  const place = shown(order.id);
  const known = Math.max(seen.get(order.id) ?? -1, place ? Number(place.dataset.version) : -1);
  seen.set(order.id, Math.max(known, order.version));
  return order.version > known;
}

function redraw(order) {
  if (subject()?.dataset.order === order.id) refresh("div[data-order]");
  else if (shown(order.id)) refresh("ol.list");
  if (cardOf(order.voucherId)) refresh(`article.ticket[data-voucher="${CSS.escape(String(order.voucherId))}"]`);
}

/** An order as it now is. A version that was shown already says nothing. */
export function apply(order, kind = KINDS[order.status]) {
  if (!kind || typeof order.id !== "string") return;
  if (order.status === "QUEUED") {
    if ((seen.get(order.id) ?? 0) > 0) return; // it was decided meanwhile
    seen.set(order.id, 0);
    ahead(order);
  } else if (isNews(order)) {
    push(kind, order);
    redraw(order);
  }
}

let first = true;

/** All orders that may have changed. The first snapshot after the page came is no news, but for orders that it shows. */
export function snapshot(orders) {
  for (const order of [...orders].reverse()) {
    if (first && !shown(order.id)) seen.set(order.id, order.version);
    else apply(order);
  }
  first = false;
}
