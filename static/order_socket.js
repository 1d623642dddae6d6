// The socket: snapshot, pushes, stock. While it is away the page says so and asks for its one order by itself.

import { cardOf, cards, setState, setStock, setWindow } from "./card.js";
import { heard } from "./clock.js";
import { apply, snapshot, subject } from "./orders.js";
import { page, t } from "./words.js";

const WATCHES = 40; // the server takes 60 messages a minute
const SILENCE = 60_000; // a connection that said nothing for so long is asked whether it lives
const ANSWER = 6_000; // and given up when it does not answer
let socket;
let tries = 0;
let over = false; // session over, or pushed out by newer tabs: no reconnect
let lastNews = performance.now();
let waiting; // the timer of the next try
let asked; // the timer of a question that has no answer yet
let lastTick = Date.now();

const isOpen = () => socket?.readyState === WebSocket.OPEN;
const jitter = (ms) => ms * (0.5 + Math.random());

function say(state, text) {
  for (const place of document.querySelectorAll("[data-connection]")) {
    place.dataset.connection = state;
    place.textContent = text;
  }
}

const watch = (card) => socket.send(JSON.stringify({ type: "watch", voucherId: Number(card.dataset.voucher) }));

/** Asks for what may have been missed. A connection that is open in name only gives no answer, and is left. */
function ask() {
  if (!isOpen() || asked) return;
  if (page.user) socket.send(JSON.stringify({ type: "sync" }));
  else if (cards().length > 0) watch(cards()[0]);
  else return;
  asked = setTimeout(lose, ANSWER);
}

/** Leaves a connection without waiting for the other end to agree. */
function lose() {
  const lost = socket;
  if (!lost || lost.readyState > WebSocket.OPEN) return;
  socket = undefined; // its own "close" may come in minutes, and says nothing any more
  lost.close();
  retry();
}

function retry() {
  clearTimeout(asked);
  asked = undefined;
  if (over || waiting) return;
  tries += 1;
  waiting = setTimeout(connect, jitter(Math.min(500 * 2 ** (tries - 1), 15000)));
}

/** Back in front of the reader: at a time of one's own within two seconds, for a thousand others come back as well. */
function back() {
  setTimeout(() => (isOpen() ? ask() : connect()), 2000 * Math.random());
}

/** Once a second: how old the numbers are while the connection is away, and whether one that is silent still lives. */
export function showAge() {
  const slept = Date.now() - lastTick > 15_000; // a machine that was suspended: timers stood still
  lastTick = Date.now();
  if (over || tries + (socket ? 1 : 0) === 0) return;
  if (!isOpen()) {
    if (tries > 0) say("closed", t("offline", { n: Math.round((performance.now() - lastNews) / 1000) }));
  } else if (document.hidden) return;
  else if (slept) back();
  else if (performance.now() - lastNews > SILENCE) ask();
}

function receive(message) {
  heard(message.serverTime);
  lastNews = performance.now();
  clearTimeout(asked);
  asked = undefined;
  if (message.type === "snapshot") snapshot(message.orders ?? []);
  else if (message.type?.startsWith("order.") && message.order) apply(message.order, message.type);
  else if (message.type === "desk") import("./dashboard.js").then((dashboard) => dashboard.show(message));
  else if (message.type?.startsWith("voucher.")) {
    const card = cardOf(message.voucherId);
    if (!card) return;
    if (message.type === "voucher.stock") setStock(card, message.stock, message.asOf);
    if (message.type === "voucher.sale") {
      setWindow(card, message.beginTime, message.endTime);
      setState(card, message.state);
    }
  }
}

function connect() {
  clearTimeout(waiting);
  waiting = undefined;
  if (over || (socket && socket.readyState < WebSocket.CLOSING)) return;
  socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`);
  const mine = socket;
  mine.addEventListener("open", () => {
    if (mine !== socket) return;
    tries = 0;
    lastNews = performance.now();
    say("open", t("live"));
    cards().slice(0, WATCHES).forEach(watch);
    const desk = document.querySelector("[data-desk]")?.dataset.desk;
    if (desk) mine.send(JSON.stringify(desk === "all" ? { type: "desk" } : { type: "desk", voucherId: Number(desk) }));
  });
  mine.addEventListener("message", (event) => {
    if (mine !== socket) return;
    try {
      receive(JSON.parse(event.data));
    } catch (error) {
      console.error(error); // one bad message must not end the rest
    }
  });
  mine.addEventListener("close", (event) => {
    if (mine !== socket) return;
    if (event.code === 4401 && page.user) {
      over = true;
      say("closed", t("next-login-required"));
    } else if (event.code === 4401 || event.code === 4409) {
      over = true;
      say("closed", "");
    } else retry();
  });
}

async function poll() {
  const place = subject();
  if (place && ["QUEUED", "PENDING"].includes(place.dataset.status)) {
    if (isOpen()) {
      if (place.dataset.status === "QUEUED" && Math.random() < 0.1) socket.send(JSON.stringify({ type: "sync" }));
    } else {
      try {
        const ticket = new URLSearchParams(location.search).get("ticket");
        const query = ticket ? `?ticket=${encodeURIComponent(ticket)}` : "";
        const response = await fetch(`/api/voucher-order/${place.dataset.order}${query}`, { cache: "no-store" });
        const body = await response.json();
        if (body.success) {
          lastNews = performance.now();
          apply(body.data);
        }
      } catch {
        // still away; the next round asks again
      }
    }
  }
  setTimeout(poll, 1500 + 1000 * Math.random());
}

/** Opens the socket where there is something to hear, and starts the poll that stands in for it. */
export function start() {
  if (page.user || cards().length > 0) {
    connect();
    window.addEventListener("online", connect);
    window.addEventListener("offline", lose);
    document.addEventListener("visibilitychange", () => document.hidden || back());
    window.addEventListener("pagehide", () => socket?.close()); // a page in the history holds no place
  }
  if (subject()) setTimeout(poll, 2000 * Math.random());
}
