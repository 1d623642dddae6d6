// The click: posted once, grey at once, back with the answer or after 5 s. Without this script the same form works.

import { clear, question, solve, typed } from "./captcha.js";
import { hold, paint, say, setState } from "./card.js";
import { heard, timeOfDay } from "./clock.js";
import { page, t } from "./words.js";

const GIVE_UP = 5000;
const STATES = { SOLD_OUT: "soldOut", ENDED: "ended", PAUSED: "paused", NOT_BEGUN: "soon" };

async function post(url, captcha) {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), GIVE_UP);
  try {
    const shown = captcha ? { body: JSON.stringify({ captcha }) } : {};
    const headers = { accept: "application/json", ...(captcha && { "content-type": "application/json" }) };
    const response = await fetch(url, { method: "POST", headers, signal: stop.signal, ...shown });
    return { body: await response.json(), wait: response.headers.get("retry-after") };
  } finally {
    clearTimeout(timer);
  }
}

function answer(card, body, wait) {
  const order = /^[1-9]\d{0,18}$/.test(body.data) ? body.data : undefined;
  if (body.success && order) {
    const ticket = body.ticket ? `?ticket=${encodeURIComponent(body.ticket)}` : "";
    location.assign(`/orders/${order}${ticket}`);
    return true;
  }
  const code = body.code ?? "INTERNAL";
  if (code === "DUPLICATE" && order) {
    hold(card, order);
    say(card, t("next-duplicate"));
  } else if (code === "LOGIN_REQUIRED") {
    say(card, t("next-login-required"), { href: `/login?next=${encodeURIComponent(location.pathname)}`, text: t("log-in") });
  } else {
    heard(body.data?.serverTime);
    if (code === "NOT_BEGUN" && body.data?.beginTime) card.dataset.begin = body.data.beginTime;
    if (STATES[code]) setState(card, STATES[code]);
    const key = `next-${code.toLowerCase().replaceAll("_", "-")}`;
    const time = timeOfDay(Date.parse(card.dataset.begin));
    const known = code === "SOLD_OUT" ? t("refused-sold-out") : t(key, { time, seconds: wait ?? 3, req: "" });
    say(card, known === key ? body.errorMsg ?? t("next-uncertain") : known);
  }
  return false;
}

// A sale with a captcha asks on the first click; the page solves it by itself where it can, and clicks again.
async function click(card, button) {
  const url = `/api/voucher-order/seckill/${card.dataset.voucher}`;
  const answered = typed(card);
  clear(card);
  let heard = await post(url, answered);
  if (heard.body.code !== "CAPTCHA_REQUIRED" || answered) return heard;
  button.textContent = t("captcha-solving");
  const { id } = heard.body.data;
  const answer = await solve(heard.body.data);
  return answer ? post(url, { id, answer }) : heard;
}

async function buy(card, button) {
  card.dataset.busy = "1";
  button.disabled = true;
  button.classList.remove("go");
  button.textContent = t("buying");
  say(card, "");
  let leaving = false;
  try {
    const { body, wait } = await click(card, button);
    if (body.code === "CAPTCHA_REQUIRED") question(card, body.data);
    else leaving = answer(card, body, wait);
  } catch {
    say(card, t("next-uncertain")); // sent or not, we cannot know; a second click cannot buy twice
  }
  if (leaving) return; // grey until the order's page is there
  delete card.dataset.busy;
  paint(card);
}

/** Takes over the forms of the cards; a visitor's form goes to the server, which leads to the login. */
export function start() {
  if (!page.user) return;
  document.addEventListener("submit", (event) => {
    const button = event.target.querySelector('button[data-action="buy"]');
    const card = button?.closest("[data-voucher]");
    if (!card) return;
    event.preventDefault();
    if (!card.dataset.busy && !button.disabled) buy(card, button);
  });
}
