// A notification of the browser, for a reader whose tab is in the background: asked for by a click, never by itself.

import { page, t } from "./words.js";

/** States of an order after which nothing is left to tell. */
const FINAL = ["PAID", "CANCELLED", "REFUNDED", "FAILED"];

const can = () => "Notification" in window && page.user;

/** Offers it beside the connection's state, as long as the reader has neither allowed nor refused it and there is news to
 *  come. Called again whenever a part of the page was put in place anew. */
export function start() {
  const place = document.querySelector("[data-connection]");
  const order = document.querySelector("div[data-order]");
  const news = !document.querySelector("[data-desk]") && !FINAL.includes(order?.dataset.status);
  const wanted = news && place && can() && Notification.permission === "default";
  const there = document.querySelector("[data-tell]");
  if (!wanted) there?.remove();
  if (!wanted || there) return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "tell small";
  button.dataset.tell = "";
  button.textContent = t("tell-me");
  button.addEventListener("click", async () => {
    await Notification.requestPermission();
    button.remove();
  });
  place.after(" ", button);
}

/** Tells a verdict; several tabs of one browser tell it once, for it bears one tag. */
export function tell(sentence, order) {
  if (!can() || !document.hidden || Notification.permission !== "granted") return;
  try {
    const note = new Notification(sentence, { body: order.voucherTitle, tag: `order-${order.id}-${order.version}` });
    note.addEventListener("click", () => {
      window.focus();
      location.assign(`/orders/${order.id}`);
    });
  } catch {
    // phones show notifications of a service worker only; the page itself still says it
  }
}
