// The socket: snapshot, pushes, stock. While it is away the page says so and asks for its one order by itself.

import { cardOf, cards, setState, setStock, setWindow } from "./card.js";
import { heard } from "./clock.js";
import { apply, snapshot, subject } from "./orders.js";
import { page, t } from "./words.js";

const WATCHES = 40; // the server takes 60 messages a minute
let socket;
let tries = 0;
let over = false; // session over, or pushed out by newer tabs: no reconnect
let lastNews = performance.now();

const isOpen = () => socket?.readyState === WebSocket.OPEN;
const jitter = (ms) => ms * (0.5 + Math.random());

function say(state, text) {
  for (const place of document.querySelectorAll("[data-connection]")) {
    place.dataset.connection = state;
    place.textContent = text;
  }
}

/** Once a second: how old the numbers are while the connection is away. */
export function showAge() {
  if (!socket || isOpen() || over || tries === 0) return;
  say("closed", t("offline", { n: Math.round((performance.now() - lastNews) / 1000) }));
}

function receive(message) {
  heard(message.serverTime);
  lastNews = performance.now();
  if (message.type === "snapshot") snapshot(message.orders ?? []);
  else if (message.type?.startsWith("order.") && message.order) apply(message.order, message.type);
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
  if (over || (socket && socket.readyState < WebSocket.CLOSING)) return;
  socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`);
  const mine = socket;
  mine.addEventListener("open", () => {
    tries = 0;
    lastNews = performance.now();
    say("open", t("live"));
    for (const card of cards().slice(0, WATCHES)) {
      mine.send(JSON.stringify({ type: "watch", voucherId: Number(card.dataset.voucher) }));
    }
  });
  mine.addEventListener("message", (event) => {
    try {
      receive(JSON.parse(event.data));
    } catch (error) {
      console.error(error); // one bad message must not end the rest
    }
  });
  mine.addEventListener("close", (event) => {
    if (event.code === 4401 && page.user) {
      over = true;
      say("closed", t("next-login-required"));
    } else if (event.code === 4401 || event.code === 4409) {
      over = true;
      say("closed", "");
    } else {
      tries += 1;
      setTimeout(connect, jitter(Math.min(500 * 2 ** (tries - 1), 15000)));
    }
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
  if (page.user || cards().length > 0) connect();
  window.addEventListener("online", connect);
  if (subject()) setTimeout(poll, 2000 * Math.random());
}
