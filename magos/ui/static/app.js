// What the pages do beyond links and forms: keyboard, live changes, the live log, themes and dialogs.
// Everything that must work does so without it. Texts enter the page as text, never as HTML.
(() => {
  "use strict";
  const html = document.documentElement;
  const body = document.body;
  const root = body.dataset.root || "";
  const one = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  html.classList.add("has-js");

  const remember = (name, value) => {
    document.cookie = `${name}=${value}; path=${root}/; max-age=31536000; SameSite=Lax`;
  };

  // The clock of this machine may be wrong: times are reckoned by the server's.
  const skew = (Date.parse(body.dataset.now) || Date.now()) - Date.now();
  const now = () => Date.now() + skew;
  const clock = () => new Date(now()).toISOString().slice(11, 19);

  // --- times: relative ones age while the page stands open
  const about = (seconds) => {
    if (seconds < 60) return `${Math.floor(seconds)} s`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
    if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
    const days = Math.floor(seconds / 86400);
    return days === 1 ? "1 day" : `${days} days`;
  };
  const age = () => {
    for (const each of all("time[datetime]")) {
      const seconds = (Date.parse(each.dateTime) - now()) / 1000;
      if (Number.isNaN(seconds)) continue;
      const away = about(Math.abs(seconds));
      each.textContent = Math.abs(seconds) < 10 ? "just now" : seconds > 0 ? `in ${away}` : `${away} ago`;
    }
  };
  setInterval(age, 15000);

  // --- theme and navigation
  one("[data-theme-toggle]")?.addEventListener("click", () => {
    const shows = html.dataset.theme || (matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark");
    html.dataset.theme = shows === "dark" ? "light" : "dark";
    remember("magos_theme", html.dataset.theme);
  });
  one("[data-collapse]")?.addEventListener("click", () => {
    remember("magos_nav", body.classList.toggle("collapsed") ? "narrow" : "wide");
  });

  // --- live: refetch what is on the screen when it has changed, and say so when the stream is lost
  const lost = one(".lost");
  let shown = clock();
  let busy = false;
  let again = false;
  const refresh = async () => {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    const before = new Map(all("#live [data-row][id]").map((row) => [row.id, row.textContent]));
    try {
      const at = all("[data-row]").findIndex((row) => row.classList.contains("at"));
      await htmx.ajax("GET", location.pathname + location.search.replace(/([?&])dialog=[^&]*/, "$1"), {
        target: "#live", select: "#live", swap: "outerMorph",
      });
      for (const row of all("#live [data-row][id]")) {
        if (before.has(row.id) && before.get(row.id) !== row.textContent) tint(row);
      }
      if (at >= 0) all("[data-row]")[at]?.classList.add("at");
      shown = clock();
      age();
      consoles();
    } finally {
      busy = false;
      if (again) {
        again = false;
        soon();
      }
    }
  };
  const tint = (row) => {
    row.classList.remove("changed");
    void row.offsetWidth;
    row.classList.add("changed");
    setTimeout(() => row.classList.remove("changed"), 1100);
  };
  let timer = 0;
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(refresh, 300);
  };
  const disconnected = (is) => {
    if (!lost) return;
    lost.hidden = !is;
    lost.textContent = is ? `Connection lost. Shown as of ${shown} UTC; reconnecting.` : "";
  };
  // Neither trouble of the server nor the login page replaces what is shown.
  document.addEventListener("htmx:after:request", (event) => {
    const { response, text } = event.detail.ctx;
    const useless = response.status >= 500 || response.raw.redirected || !text.includes('id="live"');
    disconnected(response.status >= 500);
    if (useless) event.preventDefault();
    if (response.raw.redirected) location.reload();
  });

  // What a stream begins with says whether the page was already out of date when it was opened.
  const markOf = (versions) => {
    let total = 0;
    for (const version of versions) {
      let number = 0;
      for (let at = 0; at < version.length; at += 1) number = (Math.imul(number, 31) + version.charCodeAt(at)) >>> 0;
      total = (total + number) >>> 0;
    }
    return String(total);
  };
  const live = (key) => {
    const path = body.dataset[key];
    const name = body.dataset[`${key}Name`];
    const mark = body.dataset[`${key}Mark`];
    let broken = false;
    let wait = 1000;
    let source = null;
    const open = () => {
      if (document.hidden || source) return;
      const there = new Map();
      let synced = false;
      const opened = new EventSource(path);
      source = opened;
      opened.addEventListener("synced", () => {
        synced = true;
        wait = 1000;
        if (broken || markOf(there.values()) !== mark) soon();
        broken = false;
        disconnected(false);
      });
      opened.onmessage = (event) => {
        const { type, object } = JSON.parse(event.data);
        const { namespace, name: its, resourceVersion } = object.metadata;
        if (name && its !== name) return;
        if (type === "DELETED") there.delete(`${namespace}/${its}`);
        else there.set(`${namespace}/${its}`, resourceVersion);
        if (name) check(object);
        if (synced) soon();
      };
      const over = () => {
        opened.close();
        if (source === opened) source = null;
        broken = true;
        disconnected(true);
        setTimeout(open, wait);
        wait = Math.min(wait * 2, 30000);
      };
      opened.addEventListener("resync", over);
      opened.onerror = over;
    };
    const close = () => {
      source?.close();
      source = null;
      broken = true;
    };
    open();
    // A browser has few connections to a server: pages that nobody looks at hold none.
    document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
    addEventListener("pagehide", close);
    addEventListener("pageshow", open);
  };
  const streams = ["live", "also"].filter((key) => body.dataset[key]);
  streams.forEach(live);
  if (body.dataset.seconds) {
    setInterval(() => {
      if (!document.hidden) refresh().catch(() => disconnected(true));
    }, body.dataset.seconds * 1000);
  }

  // --- dialogs: modal here, plain on a page without JavaScript; closing gives the focus back
  let dialog = one("dialog[data-dialog]");
  const check = (object) => {
    if (!dialog?.dataset.run) return;
    const waiting = object?.status?.awaitingApproval?.runID;
    if (waiting === dialog.dataset.run) return;
    const note = one(".stale", dialog);
    one("p", note).textContent = waiting
      ? `Run ${dialog.dataset.run} no longer waits: run ${waiting} does. Close this and look at its plan.`
      : `Run ${dialog.dataset.run} no longer waits for an approval. Close this and look at how it stands now.`;
    note.hidden = false;
    one("form button:not([type])", dialog).disabled = true;
  };
  const close = () => {
    const opener = dialog.dataset.opener;
    history.replaceState(null, "", dialog.dataset.closeTo);
    dialog.close();
    dialog.remove();
    dialog = null;
    (document.getElementById(opener) || one("main")).focus();
  };
  if (dialog) {
    dialog.close();
    dialog.showModal();
    dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      close();
    });
    one("[data-close]", dialog).addEventListener("click", (event) => {
      event.preventDefault();
      close();
    });
    one("form", dialog).addEventListener("submit", (event) => {
      one("form button:not([type])", event.target).disabled = true;
    });
  }
  const help = one("#help");
  let opener = null;
  const showHelp = () => {
    opener = document.activeElement;
    help?.showModal();
  };
  help?.addEventListener("close", () => opener?.focus());
  one("[data-close]", help || document.createElement("p"))?.addEventListener("click", () => help.close());
  one("[data-help]")?.addEventListener("click", showHelp);

  // --- copying
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-copy]");
    if (!button) return;
    await navigator.clipboard?.writeText(button.dataset.copy);
    button.classList.add("done");
    setTimeout(() => button.classList.remove("done"), 1200);
  });

  // --- filters: at once, without the button
  const filters = one("[data-filters]");
  if (filters) {
    let pause = 0;
    const go = async () => {
      const asked = [...new FormData(filters)].filter(([, value]) => value && value !== "name");
      const query = new URLSearchParams(asked).toString();
      const path = filters.getAttribute("action") + (query ? `?${query}` : "");
      history.replaceState(null, "", path);
      await refresh();
    };
    document.addEventListener("input", (event) => {
      if (event.target.form?.matches("[data-filters]") === false || !event.target.form) return;
      clearTimeout(pause);
      pause = setTimeout(go, event.target.tagName === "SELECT" ? 0 : 250);
    });
    document.addEventListener("submit", (event) => {
      if (!event.target.matches("[data-filters]")) return;
      event.preventDefault();
      go();
    });
  }

  // --- keyboard
  let leader = 0;
  const step = (by) => {
    const rows = all("#live [data-row]");
    if (!rows.length) return;
    const at = rows.findIndex((row) => row.classList.contains("at"));
    const next = Math.min(Math.max(at + by, 0), rows.length - 1);
    rows.forEach((row, index) => row.classList.toggle("at", index === next));
    rows[next].scrollIntoView({ block: "nearest" });
    one("a", rows[next])?.focus({ preventScroll: true });
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches("input, textarea, select");
    if (typing) {
      if (event.key !== "Escape") return;
      event.preventDefault(); // a search field would be emptied
      event.target.blur();
      return;
    }
    if (one("dialog:modal")) return;
    if (leader && Date.now() - leader < 1500) {
      leader = 0;
      const target = one(`[data-go="${CSS.escape(event.key)}"]`);
      if (target) {
        event.preventDefault();
        location.assign(target.href);
        return;
      }
    }
    const act = {
      "/": () => one("[data-search]")?.focus(),
      "?": showHelp,
      g: () => { leader = Date.now(); },
      j: () => step(1),
      k: () => step(-1),
      a: () => one('[data-key="a"]')?.click(),
      r: () => one('[data-key="r"]')?.click(),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });

  // --- logs
  const palette = (style, code) => {
    if (code === 0) return [];
    const names = { 1: "b", 2: "d", 3: "i", 4: "u" };
    if (names[code]) return [...style.filter((name) => name !== names[code]), names[code]];
    const off = { 22: ["b", "d"], 23: ["i"], 24: ["u"] }[code];
    if (off) return style.filter((name) => !off.includes(name));
    for (const [first, kind, plus] of [[30, "f", 0], [90, "f", 8], [40, "g", 0], [100, "g", 8]]) {
      if (code >= first && code < first + 8) {
        return [...style.filter((name) => name[0] !== kind), `${kind}${code - first + plus}`];
      }
    }
    if (code === 39 || code === 49) return style.filter((name) => name[0] !== (code === 39 ? "f" : "g"));
    return style;
  };
  const sequence = /(?:\x1b\[|\x9b)([0-9;]*)m|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\x1b[PX^_][^\x1b]*(?:\x1b\\)?|\x1b[ -/]*[0-~]?/g;
  const obeyed = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
  const coloured = (line, into) => {
    let style = [];
    let position = 0;
    const put = (text) => {
      if (!text) return;
      const span = document.createElement("span");
      span.className = style.map((name) => `a-${name}`).join(" ");
      span.textContent = text.replace(obeyed, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);
      into.append(span);
    };
    for (const found of line.matchAll(sequence)) {
      put(line.slice(position, found.index));
      position = found.index + found[0].length;
      if (found[1] === undefined) continue;
      const codes = found[1].split(";").map(Number);
      while (codes.length) {
        const code = codes.shift();
        if (code === 38 || code === 48) codes.splice(0, codes[0] === 5 ? 2 : 4);
        else style = palette(style, code);
      }
    }
    put(line.slice(position));
  };

  const MOST = 5000;
  const follow = (box) => {
    if (box.dataset.started) return;
    box.dataset.started = "1";
    const panel = box.closest("[data-console]");
    const state = one("[data-console-state]", panel);
    const button = one("[data-follow]", panel);
    let number = 0;
    let following = true;
    const say = () => {
      button.setAttribute("aria-pressed", following);
      button.textContent = following ? "Following" : "Paused: follow";
    };
    const set = (is) => {
      if (following === is) return;
      following = is;
      say();
    };
    say();
    button.addEventListener("click", () => {
      set(!following);
      if (following) box.scrollTop = box.scrollHeight;
    });
    box.addEventListener("scroll", () => set(box.scrollHeight - box.scrollTop - box.clientHeight < 40));
    const add = (line) => {
      number += 1;
      const row = document.createElement("div");
      row.className = "ln";
      row.id = `L${number}`;
      const plain = line.replace(sequence, "");
      if (/^=== \w+ ===$/.test(plain)) row.classList.add("head");
      if (/^\W{0,4}Error: /.test(plain)) row.classList.add("error");
      const link = document.createElement("a");
      link.href = `#L${number}`;
      link.textContent = number;
      const text = document.createElement("span");
      coloured(line.slice(0, 4000), text);
      row.append(link, text);
      box.append(row);
      while (box.childElementCount > MOST) box.firstElementChild.remove();
      if (following) box.scrollTop = box.scrollHeight;
    };
    const source = new EventSource(box.dataset.stream);
    source.onopen = () => {
      box.replaceChildren();
      number = 0;
      state.textContent = "connected";
    };
    source.onmessage = (event) => {
      const told = JSON.parse(event.data);
      if (told.type === "line") add(told.line ?? "");
      else if (told.type === "eof") {
        state.textContent = "the log has ended";
        source.close();
      } else state.textContent = told.message || told.type;
    };
    source.onerror = () => {
      state.textContent = source.readyState === EventSource.CLOSED ? "the log is not available" : "reconnecting";
    };
    followed.set(box, source);
  };
  const followed = new Map();
  const consoles = () => {
    for (const [box, source] of followed) {
      if (box.isConnected) continue;
      source.close();
      followed.delete(box);
    }
    all("[data-stream]").forEach(follow);
  };
  consoles();
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-wrap]");
    if (!button) return;
    const wraps = one(".console", button.closest(".log")).classList.toggle("wrap");
    button.setAttribute("aria-pressed", wraps);
  });

  // #L120-L140 marks lines; those of another page of the log are fetched
  const mark = () => {
    const found = /^#L(\d+)(?:-L(\d+))?$/.exec(location.hash);
    const stored = one(".console.stored");
    if (!found || !stored) return;
    const [first, last] = [Number(found[1]), Number(found[2] || found[1])];
    all(".chosen").forEach((each) => each.classList.remove("chosen"));
    if (!document.getElementById(`L${first}`)) {
      const address = new URL(location.href);
      const wanted = String(Math.max(1, first - 20));
      if (address.searchParams.get("from") === wanted) return;
      address.searchParams.set("from", wanted);
      location.replace(address);
      return;
    }
    for (let each = first; each <= Math.min(last, first + 1000); each += 1) {
      document.getElementById(`L${each}`)?.classList.add("chosen");
    }
    const line = document.getElementById(`L${first}`);
    line.closest("details").open = true;
    line.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", mark);
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.(".stored .ln > a");
    const found = /^#L(\d+)/.exec(location.hash);
    if (!link || !event.shiftKey || !found) return;
    event.preventDefault();
    const ends = [Number(found[1]), Number(link.textContent)].sort((a, b) => a - b);
    location.hash = `#L${ends[0]}-L${ends[1]}`;
  });
  mark();
  age();
})();
