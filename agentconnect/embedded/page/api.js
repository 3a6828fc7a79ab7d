// The page HTTP API: one door for every call, and one kind of error with a sentence for people.

import { sentenceFor } from "./words.js";

/** A call that did not work; `message` can be shown as it is. `status` 0: nobody answered. */
export class ApiError extends Error {
  constructor(status, sentence) {
    super(sentence || sentenceFor(status));
    this.status = status;
  }

  /** Worth repeating unchanged: nobody there, or a relay that is busy or starting. */
  get passing() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

const room = (roomId) => `/page/rooms/${encodeURIComponent(roomId)}`;

export class Api {
  /** `onSignedOut` hears every 401 but that of a login. */
  constructor(onSignedOut) {
    this.onSignedOut = onSignedOut;
  }

  login = (token) => this.#call("POST", "/page/login", { token }, true);
  logout = () => this.#call("POST", "/page/logout", {});
  state = () => this.#call("GET", "/page/state");
  extras = () => this.#call("GET", "/page/extras");
  send = (roomId, message) => this.#call("POST", `${room(roomId)}/messages`, message);
  react = (roomId, eventId, key, on) => this.#call("POST", `${room(roomId)}/messages/${encodeURIComponent(eventId)}/reaction`, { key, on });
  removeMessage = (roomId, eventId) => this.#call("DELETE", `${room(roomId)}/messages/${encodeURIComponent(eventId)}`);
  read = (roomId, seq) => this.#call("POST", `${room(roomId)}/read`, { seq });
  createRoom = (name, agents) => this.#call("POST", "/page/rooms", { name, agents });
  settings = (roomId, change) => this.#call("POST", `${room(roomId)}/settings`, change);
  addMember = (roomId, member) => this.#call("POST", `${room(roomId)}/members`, member);
  removeMember = (roomId, userId) => this.#call("DELETE", `${room(roomId)}/members/${encodeURIComponent(userId)}`);
  dm = (userId) => this.#call("POST", "/page/dm", { user_id: userId });
  newLink = (userId) => this.#call("POST", `/page/people/${encodeURIComponent(userId)}/link`, {});
  addAgent = (name) => this.#call("POST", "/page/agents", { name });
  removeAgent = (userId) => this.#call("DELETE", `/page/agents/${encodeURIComponent(userId)}`);

  messages(roomId, before = null, limit = 50) {
    const query = new URLSearchParams({ limit });
    if (before !== null) query.set("before", before);
    return this.#call("GET", `${room(roomId)}/messages?${query}`);
  }

  /** Sends one file; XMLHttpRequest because only it tells how far an upload is. */
  upload(roomId, { file, name, caption, txn }, onProgress) {
    const query = new URLSearchParams({ name, txn });
    if (caption) query.set("caption", caption);
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open("POST", `${room(roomId)}/media?${query}`);
      request.setRequestHeader("Content-Type", file.type || "application/octet-stream");
      request.upload.onprogress = (event) => event.lengthComputable && onProgress(event.loaded / event.total);
      request.onload = () => {
        const answer = parsed(request.responseText);
        if (request.status >= 200 && request.status < 300) return resolve(answer);
        return reject(this.#failed(request.status, answer));
      };
      request.onerror = () => reject(new ApiError(0));
      request.send(file);
    });
  }

  /** The event stream as a raw response; `live.js` reads it. */
  async events(cursor, signal) {
    const response = await fetch(`/page/events?cursor=${cursor}`, {
      headers: { Accept: "text/event-stream" },
      cache: "no-store",
      signal,
    });
    if (!response.ok) throw this.#failed(response.status, parsed(await response.text()));
    return response;
  }

  async #call(method, path, body = undefined, isLogin = false) {
    let response;
    let text;
    try {
      response = await fetch(path, {
        method,
        headers: body === undefined ? {} : { "Content-Type": "application/json" },
        body: body === undefined ? undefined : JSON.stringify(body),
        cache: "no-store",
      });
      text = await response.text();
    } catch {
      throw new ApiError(0);
    }
    const answer = parsed(text);
    if (response.ok) return answer;
    throw isLogin ? new ApiError(response.status, answer.error) : this.#failed(response.status, answer);
  }

  #failed(status, answer) {
    if (status === 401) this.onSignedOut();
    return new ApiError(status, typeof answer.error === "string" ? answer.error : "");
  }
}

function parsed(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}
