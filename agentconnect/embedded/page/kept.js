// Small things this browser keeps: drafts, unsent texts, the theme. Storage may be off or full.

const PREFIX = "ac.";

export const kept = {
  get(key, otherwise = null) {
    try {
      return JSON.parse(localStorage.getItem(PREFIX + key)) ?? otherwise;
    } catch {
      return otherwise;
    }
  },

  set(key, value) {
    try {
      localStorage.setItem(PREFIX + key, JSON.stringify(value));
    } catch {
      // Nothing to do: it lives as long as the page does.
    }
  },

  drop(key) {
    try {
      localStorage.removeItem(PREFIX + key);
    } catch {
      // As above.
    }
  },

  all(prefix) {
    try {
      return Object.keys(localStorage)
        .filter((key) => key.startsWith(PREFIX + prefix))
        .map((key) => kept.get(key.slice(PREFIX.length)))
        .filter((value) => value !== null);
    } catch {
      return [];
    }
  },
};
