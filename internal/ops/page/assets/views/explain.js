// Explain a key: where it is and why, what is asked of it, and what was done about its shard.

import { live } from "../vendor/lit/directives/live.js";
import { apiPath } from "../lib/api.js";
import { decisionLine, nameShares, oncePerChange } from "../lib/decisions.js";
import { emptyState, html, keyText, link, nothing, panel, whenLoaded } from "../lib/dom.js";
import { byteRate, bytes, count, plural, rate, seconds, share, uncertainty } from "../lib/format.js";
import { sameData } from "../lib/same.js";
import { opsOf, rangeCell } from "../lib/shards.js";

const keyspacesPath = apiPath("/keyspaces", { limit: 1000 });
const decisionsPath = (shard) => apiPath("/decisions", { shard, limit: 50 });
const explainPath = (params) => apiPath("/explain", { keyspace: params.keyspace, key: params.key });

/** @type {import("../app.js").View} */
export default {
  title: "Explain a key",
  watch(params, data) {
    if (!params.key) return [keyspacesPath];
    const shard = data.get(explainPath(params))?.shard?.id;
    return [keyspacesPath, explainPath(params), ...(shard ? [decisionsPath(shard)] : [])];
  },
  render(data, params, ctx) {
    return html`
      ${panel("Which key", form(data.get(keyspacesPath), params, ctx))}
      ${params.key
        ? html`${whenLoaded(data.get(explainPath(params)), (e) => explanation(e, data.get(decisionsPath(e.shard.id)), params, ctx), 8)}
          ${sameData({ curl: explainPath(params), cleave: `cleave explain key '${params.key.replaceAll("'", "'\\''")}'${params.keyspace ? " --keyspace " + params.keyspace : ""}` })}`
        : emptyState("Where is a key, and why?", "Type one above. It need not exist: the answer says where it would be.")}`;
  },
};

function form(keyspaces, params, ctx) {
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const fields = new FormData(/** @type {HTMLFormElement} */ (event.target));
    ctx.navigate("explain", { keyspace: String(fields.get("keyspace") ?? ""), key: String(fields.get("key")) });
  };
  return html`<form class="ask" @submit=${submit}>
    <label class="field"><span>Keyspace</span><select name="keyspace">
      ${(keyspaces?.items ?? [{ name: "default" }]).map((k) => html`<option value=${k.name} ?selected=${k.name === (params.keyspace ?? "default")}>${k.name}</option>`)}
    </select></label>
    <label class="field grow"><span>Key</span><input class="mono" name="key" .value=${live(params.key ?? "")} required autocomplete="off" spellcheck="false" placeholder="user:42">
      </label>
    <button class="primary">Explain</button>
    <small class="muted">A backslash is written \\\\, other bytes \\xNN.</small>
  </form>`;
}

function explanation(e, decisions, params, ctx) {
  const s = e.shard;
  return html`
    <div class="columns">
      ${panel(keyText(params.key, 400), html`<dl class="facts">
        <dt>Keyspace</dt><dd>${e.keyspace}, ${e.kind}</dd>
        <dt>Exists</dt><dd>${exists(e)}</dd>
        ${e.expires_seconds === undefined ? nothing : html`<dt>Expires</dt><dd>in ${seconds(e.expires_seconds)}</dd>`}
        ${e.slot === undefined ? nothing : html`<dt>Slot</dt><dd>${count(e.slot)}${e.hash_tag ? html`, by its hash tag ${keyText(e.hash_tag, 60)}` : nothing}</dd>`}
        ${e.parts?.length ? html`<dt>Parts</dt><dd>${e.parts.map((p) => html`${keyText(p, 80)} `)}</dd>` : nothing}
        <dt>Shard</dt><dd><a href=${link("shards/" + s.id)}>shard ${s.id}</a>: ${rangeCell(s, 60)}</dd>
        <dt>Group</dt><dd>group ${s.group} on store ${s.store}</dd>
        <dt>Shard’s load</dt><dd>${rate(opsOf(s.load))} operations, ${share(s.load.busy)} of a processor</dd>
      </dl>`)}
      ${panel("Why it is there", html`<ul class="why">${e.why.map((line) => html`<li>${line}</li>`)}</ul>`)}
    </div>
    ${panel("What is asked of it", e.heat ? heat(e.heat) : emptyState("It is not among the keys that are asked for most", "Operations are known of those alone."))}
    ${panel("What was decided about its shard", whenLoaded(decisions, (page) => (page.items.length
      ? html`<ul class="lines">${oncePerChange(page.items).map((d) => html`<li>${decisionLine(d, ctx)}</li>`)}</ul>`
      : emptyState("No decision about its shard", "Nothing about it had to be changed so far."))))}`;
}

function exists(e) {
  if (e.exists === undefined) return "not known";
  if (!e.exists) return "no";
  return html`yes${e.type ? `, a ${e.type}` : ""}${e.bytes === undefined ? "" : ` of ${bytes(e.bytes)}`}${e.fields === undefined ? "" : ` with ${plural(e.fields, "field")}`}`;
}

function heat(k) {
  return html`<dl class="facts">
    <dt>Operations</dt><dd><b>${rate(k.per_second)}</b> <span class="muted">± ${share(uncertainty(k))}</span>, ${share(k.share_of_all)} of all${k.share_of_shard ? `, ${share(k.share_of_shard)} of its shard` : ""}</dd>
    <dt>Reads, writes</dt><dd>${rate(k.reads_per_second)} reads, ${rate(k.writes_per_second)} writes</dd>
    <dt>Bytes</dt><dd>${byteRate(k.bytes_per_second)}</dd>
    <dt>Time of each</dt><dd>${k.mean_seconds ? `${seconds(k.mean_seconds)} on average, ${seconds(k.p99_seconds)} p99` : "not known"}</dd>
    <dt>Commands</dt><dd>${nameShares(k.commands)}</dd>
    <dt>Programs</dt><dd>${nameShares(k.clients)}</dd>
    <dt>Connections</dt><dd>${nameShares(k.addresses)}</dd>
  </dl>`;
}
