package admin

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/internal/serve"
)

// metricsType is version 0.0.4 of the text format, which everything that scrapes reads.
//
// It is written by hand: the store has its figures as typed snapshots already, and the
// format is lines of text. A library would keep a second copy of each figure, in a registry
// of its own, for the lines that exposition.go writes.
const metricsType = "text/plain; version=0.0.4; charset=utf-8"

// topShards is how many shards have figures of their own: a label for each would be as
// many series as there are shards, and new ones with every split.
const topShards = 10

func (a *Admin) metrics(w http.ResponseWriter, r *http.Request) {
	if _, err := readQuery(r, nil); err != nil {
		fail(w, err)
		return
	}
	var b bytes.Buffer
	x := &exposition{to: &b}
	a.exposeServer(x)
	a.exposeStores(x, a.o.DB.Metrics())
	if err := a.exposeShards(x, r); err != nil && !a.stopped() {
		fail(w, err)
		return
	}
	a.exposeHTTP(x)
	exposeProcess(x)
	w.Header().Set("Content-Type", metricsType)
	_, _ = w.Write(b.Bytes())
}

func (a *Admin) exposeServer(x *exposition) {
	x.family("build_info", "gauge", "What runs: always 1.")
	x.sample("", 1, "version", a.o.Version, "go", runtime.Version(), "durability", a.o.Durability, "storage", a.storage())
	x.one("start_time_seconds", "gauge", "When the server has started.", float64(a.born.UnixMilli())/1000)
	ready := 1.0
	for _, c := range a.checks() {
		if !c.OK {
			ready = 0
		}
	}
	x.one("ready", "gauge", "Whether /readyz says yes.", ready)
	c := a.o.Server.Counts()
	x.one("clients", "gauge", "Redis clients that are connected.", float64(c.Clients))
	x.one("clients_max", "gauge", "How many there may be.", float64(c.MaxClients))
	x.one("connections_total", "counter", "Redis clients that have connected.", float64(c.Connections))
	x.one("connections_refused_total", "counter", "Redis clients that were turned away.", float64(c.Refused))
	used, limit := a.o.Server.Memory()
	x.one("memory_bytes", "gauge", "What of the store is in memory.", float64(used))
	x.one("memory_max_bytes", "gauge", "How much may be, if all of it is there; 0 for no limit.", float64(limit))
	x.family("commands_total", "counter", "Requests of Redis clients by command.")
	for _, n := range c.Commands {
		x.sample("", float64(n.Calls), "command", n.Name)
	}
	x.family("commands_rejected_total", "counter", "Requests that were refused before they began, by command.")
	for _, n := range c.Commands {
		x.sample("", float64(n.Rejected), "command", n.Name)
	}
	x.family("command_errors_total", "counter", "Answers that are errors, by the word that they begin with.")
	for _, word := range errorWords(c) {
		x.sample("", float64(c.Errors[word]), "error", word)
	}
	x.one("slowlog_entries", "gauge", "Slow requests that are kept.", float64(len(a.o.Server.Slowlog())))
}

// errorWords are the words of errors that are ours: capital letters. Scripts and clients
// can make others, and those may be anything.
func errorWords(c serve.Counts) (words []string) {
	for _, word := range slices.Sorted(maps.Keys(c.Errors)) {
		if len(word) <= 16 && word != "" && strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" {
			words = append(words, word)
		}
	}
	return words
}

func (a *Admin) exposeStores(x *exposition, m cleave.Metrics) {
	x.one("keyspaces", "gauge", "Keyspaces, those of entries of indexes included.", float64(m.Keyspaces))
	x.family("transactions_total", "counter", "Commits by how far apart their keys are: one group, several of a store, several stores.")
	x.sample("", float64(m.Transactions.OneGroup), "way", "one_group")
	x.sample("", float64(m.Transactions.Joint), "way", "joint")
	x.sample("", float64(m.Transactions.TwoPhase), "way", "two_phase")
	x.one("transaction_retries_total", "counter", "Conflicts after which a transaction was tried again.", float64(m.Transactions.Retries))
	x.one("transactions_open", "gauge", "Transactions across stores that have not come to their end.", float64(m.Transactions.Open))
	x.one("scattered_reads_total", "counter", "Scans and reads of several keys that met several shards.", float64(m.Transactions.Scattered))
	for _, f := range storeFigures {
		x.family(f.name, f.kind, f.help)
		for i := range m.Stores {
			x.sample("", f.value(&m.Stores[i]), "store", strconv.Itoa(i))
		}
	}
	for _, h := range []struct {
		name, help string
		of         func(*cleave.StoreMetrics) *actor.Histogram
	}{
		{"queue_wait_seconds", "How long commands waited for their batch to begin: samples.", func(s *cleave.StoreMetrics) *actor.Histogram { return &s.QueueWait }},
		{"batch_seconds", "How long batches took, the wait for the disk included: samples.", func(s *cleave.StoreMetrics) *actor.Histogram { return &s.Service }},
	} {
		x.family(h.name, "histogram", h.help)
		for i := range m.Stores {
			x.histogram(h.of(&m.Stores[i]), "store", strconv.Itoa(i))
		}
	}
}

// storeFigures are those that each store has.
var storeFigures = []struct {
	name, kind, help string
	value            func(*cleave.StoreMetrics) float64
}{
	{"log_written_bytes_total", "counter", "Bytes written to the log.", func(s *cleave.StoreMetrics) float64 { return float64(s.LogBytes) }},
	{"log_commits_total", "counter", "Writes of the log, each shared by all who waited.", func(s *cleave.StoreMetrics) float64 { return float64(s.LogFrames) }},
	{"log_syncs_total", "counter", "Syncs of the log.", func(s *cleave.StoreMetrics) float64 { return float64(s.LogSyncs) }},
	{"cache_rows", "gauge", "Rows in memory.", func(s *cleave.StoreMetrics) float64 { return float64(s.CacheRows) }},
	{"cache_bytes", "gauge", "What rows in memory take.", func(s *cleave.StoreMetrics) float64 { return float64(s.CacheBytes) }},
	{"cache_hits_total", "counter", "Looks at rows that memory could answer.", func(s *cleave.StoreMetrics) float64 { return float64(s.CacheHits) }},
	{"cache_misses_total", "counter", "Rows that were looked for on disk.", func(s *cleave.StoreMetrics) float64 { return float64(s.CacheMisses) }},
	{"cache_evictions_total", "counter", "Rows that made room for others.", func(s *cleave.StoreMetrics) float64 { return float64(s.CacheEvictions) }},
	{"unapplied_bytes", "gauge", "What is committed and not in the tables yet.", func(s *cleave.StoreMetrics) float64 { return float64(s.UnappliedBytes) }},
	{"commit_waits_total", "counter", "Commits that waited for the tables.", func(s *cleave.StoreMetrics) float64 { return float64(s.CommitWaits) }},
	{"applier_stalled_seconds_total", "counter", "How long the tables waited for the disk.", func(s *cleave.StoreMetrics) float64 { return s.ApplierStalled.Seconds() }},
	{"table_bytes", "gauge", "The size of the tables.", func(s *cleave.StoreMetrics) float64 { return float64(s.TableBytes) }},
	{"compactions_total", "counter", "Compactions of the tables.", func(s *cleave.StoreMetrics) float64 { return float64(s.Compactions) }},
	{"compaction_debt_bytes", "gauge", "What is left to compact.", func(s *cleave.StoreMetrics) float64 { return float64(s.CompactionDebtBytes) }},
	{"queue_depth", "gauge", "Commands that wait.", func(s *cleave.StoreMetrics) float64 { return float64(s.QueueDepth) }},
	{"executed_total", "counter", "Commands that groups have executed, housekeeping included.", func(s *cleave.StoreMetrics) float64 { return float64(s.Commands) }},
	{"refused_total", "counter", "Commands that were turned away because too many waited.", func(s *cleave.StoreMetrics) float64 { return float64(s.Refused) }},
	{"batches_total", "counter", "Batches in which they were executed.", func(s *cleave.StoreMetrics) float64 { return float64(s.Batches) }},
	{"disk_full", "gauge", "Whether writes are refused because the disk is full.", func(s *cleave.StoreMetrics) float64 { return flag(s.DiskFull) }},
	{"store_failed", "gauge", "Whether the store has stopped.", func(s *cleave.StoreMetrics) float64 { return flag(s.Failed != nil) }},
}

func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func (a *Admin) exposeShards(x *exposition, r *http.Request) error {
	shards, err := a.allShards(r.Context())
	if err != nil {
		return err
	}
	x.one("map_version", "gauge", "The version of the map of shards.", float64(a.o.DB.Map().Version()))
	x.one("shards", "gauge", "Shards.", float64(len(shards)))
	x.one("groups", "gauge", "Groups.", float64(len(a.o.DB.Groups())))
	jobs, err := a.jobsNow(r.Context())
	if err != nil {
		return err
	}
	running := 0
	for _, j := range jobs {
		if !j.Over() {
			running++
		}
	}
	x.one("jobs_running", "gauge", "Jobs under way.", float64(running))
	top := slices.Clone(shards)
	slices.SortStableFunc(top, func(p, q cleave.Shard) int { return cmp.Compare(q.Bytes, p.Bytes) })
	top = top[:min(len(top), topShards)]
	x.family("shard_bytes", "gauge", fmt.Sprintf("About what shards hold: the %d that hold most.", topShards))
	for _, s := range top {
		x.sample("", float64(s.Bytes), "shard", strconv.FormatUint(uint64(s.ID), 10))
	}
	x.family("shard_rows", "gauge", "About how many rows these have.")
	for _, s := range top {
		x.sample("", float64(s.Rows), "shard", strconv.FormatUint(uint64(s.ID), 10))
	}
	return nil
}

func (a *Admin) exposeHTTP(x *exposition) {
	x.family("http_requests_total", "counter", "Requests of operators.")
	panics := a.asked.each(func(of askedOf, n uint64, _ time.Duration) {
		x.sample("", float64(n), "path", of.path, "method", of.method, "status", strconv.Itoa(of.status))
	})
	x.family("http_request_seconds_total", "counter", "How long they took.")
	a.asked.each(func(of askedOf, _ uint64, took time.Duration) {
		x.sample("", took.Seconds(), "path", of.path, "method", of.method, "status", strconv.Itoa(of.status))
	})
	x.one("http_panics_total", "counter", "Mistakes of the server.", float64(panics))
	x.one("http_denied_total", "counter", "Changes that were asked for without the token.", float64(a.audit.deniedTotal()))
}

// exposeProcess tells what the process takes, without stopping it to look.
func exposeProcess(x *exposition) {
	samples := []metrics.Sample{
		{Name: "/sched/goroutines:goroutines"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/gc/cycles/total:gc-cycles"},
	}
	metrics.Read(samples)
	x.one("goroutines", "gauge", "Goroutines.", float64(samples[0].Value.Uint64()))
	x.one("heap_bytes", "gauge", "Objects in the heap.", float64(samples[1].Value.Uint64()))
	x.one("runtime_memory_bytes", "gauge", "What the runtime has of the system.", float64(samples[2].Value.Uint64()))
	x.one("gc_cycles_total", "counter", "Garbage collections.", float64(samples[3].Value.Uint64()))
}
