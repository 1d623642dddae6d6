// Starts what this page needs, then says that it listens. Every page works without any of this.

import { due } from "./card.js";
import { start as startCountdowns } from "./countdown.js";
import { refresh } from "./fresh.js";
import { start as startForm } from "./form.js";
import { showAge, start as startSocket } from "./order_socket.js";
import { start as startPurchase } from "./purchase.js";
import { start as startTell } from "./tell.js";

startPurchase();
startForm();
startTell();
startSocket();
startCountdowns((time) => {
  const card = time.closest("article.ticket[data-voucher][data-state]");
  if (card && !card.dataset.held) due(card);
  // A pay window is over: the server closes the order within moments; each page looks at a time of its own.
  else if (time.closest("div[data-order]")) setTimeout(() => refresh("div[data-order]"), 1000 + 4000 * Math.random());
}, showAge);

// A page that comes back out of the history shows old numbers.
window.addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});

document.documentElement.dataset.ready = "1";
