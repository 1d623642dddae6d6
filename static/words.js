// The data block of the page: the server's time, who is logged in, and every sentence that a script may show.

export const page = JSON.parse(document.getElementById("words").textContent);

/** The sentence under `key`, its {places} filled in. */
export function t(key, places = {}) {
  const text = page.words[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in places ? String(places[name]) : whole));
}
