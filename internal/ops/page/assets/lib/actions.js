// All that the page can change: fields, and the request that is made of them.

/**
 * @typedef {{name: string, label: string, kind?: "text"|"number"|"bytes"|"duration"|"check", optional?: boolean, hidden?: boolean,
 *   initial?: unknown, help?: string, placeholder?: string, choices?: {value: string, label: string}[]}} Field
 * @typedef {{title: string, verb: string, about?: string, fields: Field[],
 *   request: (values: any) => {path: string, body?: unknown, params?: Record<string, unknown>, method?: "DELETE"},
 *   command: (values: any) => string}} Action
 *   request: throws an Error that says what is wrong with the values; command: the same in a terminal
 */

/** @param {string} name @param {string} label @param {Partial<Field>} [more] @returns {Field} */
const field = (name, label, more = {}) => ({ name, label, ...more });
const number = (name, label, /** @type {Partial<Field>} */ more = {}) => field(name, label, { kind: "number", ...more });
const rateField = field("rate", "Copy at most", { optional: true, placeholder: "no bound", help: "Bytes a second, such as 20mb" });
const keyspaceField = field("keyspace", "Keyspace", { optional: true, placeholder: "default" });
const keyHelp = "As it is shown: a backslash is written \\\\, other bytes \\xNN";

/** @type {Record<string, Action>} */
export const actions = {
  splitShard: {
    title: "Split a shard", verb: "Split",
    about: "Cuts the shard in its middle: of its slots, or of its rows.",
    fields: [number("shard", "Shard")],
    request: (v) => ({ path: "/shards/split", body: { shard: toInt(v.shard) } }),
    command: (v) => `cleave shard split --shard ${v.shard} --yes`,
  },
  splitAtKey: {
    title: "Split at a key", verb: "Split",
    about: "A new shard begins with the key. In a hash keyspace, with its slot.",
    fields: [keyspaceField, field("key", "Key", { help: keyHelp })],
    request: (v) => ({ path: "/shards/split", body: withoutEmpty({ keyspace: v.keyspace, keys: [v.key] }) }),
    command: (v) => `cleave shard split --key ${quote(v.key)}${option("keyspace", v.keyspace)} --yes`,
  },
  mergeShards: {
    title: "Merge shards", verb: "Merge",
    about: "Joins two neighbours of one group.",
    fields: [number("left", "Left shard"), number("right", "Right shard", { help: "The next one in the order of keys" })],
    request: (v) => ({ path: "/shards/merge", body: { left: toInt(v.left), right: toInt(v.right) } }),
    command: (v) => `cleave shard merge ${v.left} ${v.right} --yes`,
  },
  moveShard: {
    title: "Move a shard", verb: "Move",
    fields: [number("shard", "Shard"), number("to", "To group"), rateField],
    request: (v) => ({ path: "/shards/move", body: { shard: toInt(v.shard), to: toInt(v.to), bytes_per_second: toBytes(v.rate) } }),
    command: (v) => `cleave shard move --shard ${v.shard} --to ${v.to}${option("rate", v.rate)} --yes`,
  },
  presplit: {
    title: "Cut a keyspace", verb: "Cut",
    about: "Cuts all slots of a hash keyspace into pieces, before it has many keys.",
    fields: [keyspaceField, number("into", "Pieces")],
    request: (v) => ({ path: "/shards/presplit", body: withoutEmpty({ keyspace: v.keyspace, into: toInt(v.into) }) }),
    command: (v) => `cleave shard presplit --into ${v.into}${option("keyspace", v.keyspace)} --yes`,
  },
  drainGroup: {
    title: "Drain a group", verb: "Drain",
    about: "Moves all of its shards to others, and gives it no more.",
    fields: [number("group", "Group"), number("parallel", "Shards at a time", { optional: true, placeholder: "1" }), rateField],
    request: (v) => ({ path: "/groups/drain", body: { group: toInt(v.group), parallel: toInt(v.parallel || 1), bytes_per_second: toBytes(v.rate) } }),
    command: (v) => `cleave group drain ${v.group}${option("parallel", v.parallel)}${option("rate", v.rate)} --yes`,
  },
  undrainGroup: {
    title: "Undrain a group", verb: "Undrain",
    about: "Lets a group that was drained have shards again.",
    fields: [number("group", "Group")],
    request: (v) => ({ path: "/groups/undrain", body: { group: toInt(v.group) } }),
    command: (v) => `cleave group undrain ${v.group}`,
  },
  rebalance: {
    title: "Rebalance", verb: "Rebalance",
    about: "Does now what the balancer plans.",
    fields: [],
    request: () => ({ path: "/rebalance", body: {} }),
    command: () => "cleave rebalance --yes",
  },
  setCap: {
    title: "Cap the writes of a shard", verb: "Set the cap",
    about: "Writers beyond the cap wait for their turn, or are refused with THROTTLED. Reads go on.",
    fields: [number("shard", "Shard"), number("writes", "Writes a second", { help: "0 makes the shard read-only" }), field("time", "For", { initial: "10m", optional: true, help: "Such as 90s, 10m or 2h. Empty: until it is removed" })],
    request: (v) => ({ path: "/caps/set", body: { shard: toInt(v.shard), writes_per_second: toNumber(v.writes), seconds: toSeconds(v.time) } }),
    command: (v) => `cleave cap shard ${v.shard} --writes ${v.writes}${option("for", v.time)}`,
  },
  setPrefixCap: {
    title: "Cap the writes of a prefix", verb: "Set the cap",
    about: "Caps keys that begin alike. Writers beyond the cap wait, or are refused with THROTTLED.",
    fields: [keyspaceField, field("prefix", "Prefix", { optional: true, help: "Empty for all keys of the keyspace" }), number("writes", "Writes a second", { help: "0 makes them read-only" }), field("time", "For", { initial: "10m", optional: true })],
    request: (v) => ({ path: "/caps/set", body: { ...withoutEmpty({ keyspace: v.keyspace }), prefix: v.prefix, writes_per_second: toNumber(v.writes), seconds: toSeconds(v.time) } }),
    command: (v) => `cleave cap prefix ${quote(v.prefix)} --writes ${v.writes}${option("keyspace", v.keyspace)}${option("for", v.time)}`,
  },
  removeCap: {
    title: "Remove a cap", verb: "Remove",
    about: "Writers go on at once.",
    fields: [number("cap", "Cap")],
    request: (v) => ({ path: "/caps/remove", body: { id: toInt(v.cap) } }),
    command: (v) => `cleave cap remove ${v.cap}`,
  },
  accept: {
    title: "Accept a hot shard", verb: "Accept",
    about: "Leaves the shard as it is until the time is over. The audit log keeps your reason.",
    fields: [
      number("shard", "Shard"),
      field("ground", "Ground", { initial: "brief-peaks", choices: [{ value: "brief-peaks", label: "Peaks are brief" }, { value: "change-costs-more", label: "A change costs more" }, { value: "end-of-life", label: "It ends soon" }] }),
      field("price", "What it costs to leave it"), field("reason", "Why that is better"), field("time", "For", { initial: "24h", help: "At most 90 days" }),
    ],
    request: (v) => ({ path: "/shards/accept", body: { shard: toInt(v.shard), ground: v.ground, price: v.price, reason: v.reason, seconds: toSeconds(v.time) } }),
    command: (v) => `cleave accept ${v.shard} --ground ${v.ground} --price ${quote(v.price)} --reason ${quote(v.reason)} --for ${v.time} --yes`,
  },
  endAccept: {
    title: "End the acceptance of a shard", verb: "Relieve it again",
    fields: [number("shard", "Shard")],
    request: (v) => ({ path: "/shards/accept", body: { shard: toInt(v.shard), end: true } }),
    command: (v) => `cleave accept ${v.shard} --end --yes`,
  },
  markCritical: {
    title: "Mark a keyspace as critical", verb: "Mark",
    about: "Heat on a critical keyspace is never accepted.",
    fields: [field("keyspace", "Keyspace"), field("off", "Take the mark away", { kind: "check" })],
    request: (v) => ({ path: "/keyspaces/critical", body: { keyspace: v.keyspace, off: v.off } }),
    command: (v) => `cleave keyspace critical ${v.keyspace}${v.off ? " --off" : ""}`,
  },
  createKeyspace: {
    title: "Create a keyspace", verb: "Create",
    fields: [
      field("name", "Name"),
      field("kind", "Kind", { initial: "hash", choices: [{ value: "hash", label: "hash: keys spread over slots" }, { value: "range", label: "range: keys in the order of their bytes" }] }),
      number("slots", "Slots", { optional: true, placeholder: "16384", help: "Of a hash keyspace: a power of two" }),
      field("layout", "Layout of keys", { optional: true, placeholder: "(region, hour(ts)) | id" }),
    ],
    request: (v) => ({ path: "/keyspaces/create", body: withoutEmpty({ name: v.name, kind: v.kind, slots: v.slots && toInt(v.slots), layout: v.layout }) }),
    command: (v) => `cleave keyspace create ${v.name} --${v.kind}${option("slots", v.slots)}${v.layout ? " --layout " + quote(v.layout) : ""}`,
  },
  createBackup: {
    title: "Create a backup", verb: "Back up",
    fields: [field("name", "Name", { optional: true, placeholder: "the time" })],
    request: (v) => ({ path: "/backups/create", body: withoutEmpty({ name: v.name }) }),
    command: (v) => `cleave backup create ${v.name}`.trim(),
  },
  verifyBackup: {
    title: "Verify a backup", verb: "Verify",
    about: "Opens a copy as a store and reads all of it.",
    fields: [field("name", "Name")],
    request: (v) => ({ path: "/backups/verify", body: { name: v.name } }),
    command: (v) => `cleave backup verify ${v.name}`,
  },
  deleteBackup: {
    title: "Delete a backup", verb: "Delete",
    fields: [field("name", "Name"), field("restored", "What was restored under that name", { kind: "check" })],
    request: (v) => ({ path: "/backups", params: { name: v.name, restored: v.restored || undefined }, method: "DELETE" }),
    command: (v) => `cleave backup delete ${v.name}${v.restored ? " --restored" : ""} --yes`,
  },
  setSetting: {
    title: "Change a setting", verb: "Change",
    about: "Until the server ends. To keep it, change the configuration too.",
    fields: [field("name", "Setting"), field("value", "Value", { optional: true })],
    request: (v) => ({ path: "/config/set", body: { settings: { [v.name]: v.value } } }),
    command: (v) => `cleave config set ${quote(v.name + "=" + v.value)}`,
  },
  setKnob: {
    title: "Change a knob", verb: "Change",
    about: "It is kept in the catalog.",
    fields: [field("name", "Knob"), field("value", "Value", { optional: true, help: "Empty for the default" })],
    request: (v) => ({ path: "/knobs/set", body: { values: { [v.name]: v.value } } }),
    command: (v) => `cleave knob set ${quote(v.name + "=" + v.value)}`,
  },
  pauseJob: jobAction("pause", "Pause", "What it has done stays."),
  resumeJob: jobAction("resume", "Resume", ""),
  cancelJob: jobAction("cancel", "Cancel the job", "What it has begun is taken back."),
  throttleJob: {
    title: "Throttle a job", verb: "Throttle",
    fields: [field("job", "Job"), field("rate", "Copy at most", { help: "Bytes a second, such as 10mb; 0 for no bound" })],
    request: (v) => ({ path: `/jobs/${encodeURIComponent(v.job)}/throttle`, body: { bytes_per_second: toBytes(v.rate) } }),
    command: (v) => `cleave job throttle ${v.job} --rate ${v.rate}`,
  },
};

/** @param {string} verb @param {string} button @param {string} about @returns {Action} */
function jobAction(verb, button, about) {
  return {
    title: button === "Cancel the job" ? "Cancel a job" : button + " a job", verb: button, about,
    fields: [field("job", "Job")],
    request: (v) => ({ path: `/jobs/${encodeURIComponent(v.job)}/${verb}`, body: {} }),
    command: (v) => `cleave job ${verb} ${v.job}`,
  };
}

/** @param {unknown} text */
function toNumber(text) {
  const n = Number(String(text).replaceAll(",", ""));
  if (String(text).trim() === "" || !Number.isFinite(n)) throw new Error(`“${text}” is no number`);
  return n;
}

/** @param {unknown} text */
function toInt(text) {
  const n = toNumber(text);
  if (!Number.isInteger(n) || n < 0) throw new Error(`“${text}” is no whole number`);
  return n;
}

/** "20mb", "512 KiB", "" for 0. @param {unknown} text */
export function toBytes(text) {
  if (String(text).trim() === "") return 0;
  const found = /^\s*([\d.]+)\s*([kmgt]?)i?b?\s*$/i.exec(String(text));
  if (!found) throw new Error(`“${text}” is no number of bytes: write such as 20mb`);
  return Math.round(toNumber(found[1]) * 1024 ** ("kmgt".indexOf(found[2].toLowerCase() || "-") + 1));
}

const unitSeconds = { s: 1, m: 60, h: 3600, d: 86400 };

/** "90s", "10m", "2h", "" for 0. @param {unknown} text */
export function toSeconds(text) {
  if (String(text).trim() === "") return 0;
  const found = /^\s*([\d.]+)\s*([smhd]?)\s*$/i.exec(String(text));
  if (!found) throw new Error(`“${text}” is no time: write such as 90s, 10m or 2h`);
  return toNumber(found[1]) * unitSeconds[/** @type {keyof typeof unitSeconds} */ (found[2].toLowerCase() || "s")];
}

/** @param {Record<string, unknown>} fields */
function withoutEmpty(fields) {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== "" && value !== undefined));
}

/** @param {string} name @param {unknown} value */
const option = (name, value) => (value ? ` --${name} ${quote(String(value))}` : "");

/** A word for a shell. @param {string} text */
const quote = (text) => (/^[\w.,:/=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);
