// A voucher card changes its state by itself, so that a thousand waiting pages need not ask the server at once.

import { millis, now, timeOfDay } from "./clock.js";
import { fill } from "./countdown.js";
import { page, t } from "./words.js";

const kebab = (state) => state.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`);

export const cards = () => [...document.querySelectorAll("article.ticket[data-voucher][data-state]")];
export const cardOf = (id) => document.querySelector(`article.ticket[data-voucher="${CSS.escape(String(id))}"][data-state]`);

function count(card, label, content) {
  const place = card.querySelector(".count");
  place.replaceChildren(`${label} `, content);
  place.toggleAttribute("role", false);
  if (content.matches("time")) place.setAttribute("role", "timer");
}

function word(text) {
  const strong = document.createElement("strong");
  strong.textContent = text;
  return strong;
}

function countdown(until) {
  const time = document.createElement("time");
  time.dateTime = until;
  time.dataset.countdown = "";
  fill(time);
  return time;
}

/** Paints the stub for the card's present state; what the buyer holds stays as it is, and so does a click under way. */
export function paint(card) {
  const { state, begin, end, held, busy } = card.dataset;
  if (held) return;
  card.querySelector(".chip").textContent = t(`chip-${kebab(state)}`);
  const mayClick = state !== "open" || page.user;
  card.querySelector(".why").textContent = t(mayClick ? `why-${kebab(state)}` : "why-visitor");
  let label = t(`chip-${kebab(state)}`);
  if (state === "soon") {
    count(card, t("label-starts"), countdown(begin));
    label = t("buy-soon", { time: timeOfDay(Date.parse(begin)) });
  } else if (state === "open") {
    count(card, t("label-ends"), countdown(end));
    label = t("buy");
  } else if (state === "paused") {
    count(card, t("label-paused"), word(t("word-paused")));
  } else if (state === "soldOut") {
    const measured = Number(card.querySelector("[data-age]")?.dataset.age) || now();
    count(card, t("label-sold-out", { time: timeOfDay(measured) }), word(t("chip-sold-out")));
  } else {
    count(card, t("label-ended"), word(timeOfDay(Date.parse(end))));
  }
  for (const part of card.querySelectorAll("meter, [data-age]")) part.hidden = state === "soon";
  paintStock(card);
  const button = card.querySelector('button[data-action="buy"]');
  if (!button || busy) return;
  button.disabled = state !== "open";
  button.classList.toggle("go", state === "open");
  button.textContent = label;
}

function paintStock(card) {
  const number = card.querySelector("[data-stock]");
  const total = Number(number?.dataset.total);
  if (!number || card.dataset.state === "soon") return;
  const left = Number(number.textContent);
  const low = left > 0 && left * 10 <= total && card.dataset.state !== "ended";
  const before = card.querySelector("[data-before]");
  before.textContent = t(low ? "low-before" : "stock-before");
  before.classList.toggle("low", low);
  card.querySelector("[data-after]").textContent = t("stock-after", { total: total.toLocaleString("en-US") });
}

/** The card is in `state` from now on. */
export function setState(card, state) {
  if (!["soon", "open", "paused", "soldOut", "ended"].includes(state) || card.dataset.state === state) return;
  card.dataset.state = state;
  say(card, ""); // what was said belonged to the state before
  paint(card);
}

/** Units left, as measured at `asOf`. */
export function setStock(card, stock, asOf) {
  const number = card.querySelector("[data-stock]");
  if (!number || !Number.isInteger(stock)) return;
  number.textContent = String(Math.max(0, stock));
  const meter = card.querySelector("meter");
  if (meter) meter.value = Math.max(0, stock);
  const age = card.querySelector("[data-age]");
  if (age) age.dataset.age = String(millis(asOf) || now());
  paintStock(card);
  if (card.dataset.state === "open" && stock <= 0) setState(card, "soldOut");
  else if (card.dataset.state === "soldOut" && stock > 0) setState(card, "open");
}

/** The window that the server has for the sale. One that was moved moves the countdown with it. */
export function setWindow(card, begin, end) {
  const moved = ["begin", "end"].filter((name, i) => {
    const [before, after] = [Date.parse(card.dataset[name]), Date.parse([begin, end][i])];
    return Number.isFinite(after) && before !== after;
  });
  for (const name of moved) card.dataset[name] = name === "begin" ? begin : end;
  if (moved.length > 0) paint(card);
}

/** A countdown of the card is over: the sale begins or ends. */
export function due(card) {
  if (card.dataset.state === "soon") setState(card, Date.parse(card.dataset.end) > now() ? "open" : "ended");
  else if (card.dataset.state === "open") setState(card, "ended");
}

/** Says a sentence at the card, with a link after it where there is one; an empty text takes it away. */
export function say(card, text, link) {
  card.querySelector(".stub [role=alert]")?.remove();
  if (!text) return;
  const p = document.createElement("p");
  p.setAttribute("role", "alert");
  const b = document.createElement("b");
  b.textContent = text;
  p.append(b);
  if (link) {
    const a = document.createElement("a");
    a.href = link.href;
    a.textContent = link.text;
    p.append(" ", a);
  }
  card.querySelector(".stub form, .stub .btn, .stub .why").before(p);
}

/** The buyer holds a unit under `order`: the button becomes the way there. */
export function hold(card, order) {
  card.dataset.held = order;
  card.querySelector(".chip").textContent = t("chip-held");
  card.querySelector(".why").textContent = t("why-held-plain");
  const a = document.createElement("a");
  a.className = "btn go";
  a.href = `/orders/${order}`;
  a.textContent = t("go-order");
  card.querySelector(".stub form")?.replaceWith(a);
}
