package admin

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/internal/server"
)

// metricsContentType is version 0.0.4 of the text format, which everything that scrapes reads. A client
// that prefers the binary format of Prometheus gets that.
const metricsContentType = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"

// maxShardSeries is how many shards have figures of their own: a label for each would be as
// many series as there are shards, and new ones with every split.
const maxShardSeries = 10

func (a *Admin) serveMetrics(w http.ResponseWriter, r *http.Request) {
	if _, err := parseQuery(r, nil); err != nil {
		writeError(w, err)
		return
	}
	// All figures are read here and not in Collect, which runs on a goroutine of the registry: there
	// a panic would end the process, and an error would have no place in the answer.
	var m metricSet
	a.addServerMetrics(&m)
	a.addStoreMetrics(&m, a.o.DB.Metrics())
	if err := a.addShardMetrics(&m, r); err != nil && !a.hasFailedStore() {
		writeError(w, err)
		return
	}
	a.addThrottleMetrics(&m)
	a.addHeatMetrics(&m)
	a.addDiskMetrics(&m)
	a.addHTTPMetrics(&m)
	addProcessMetrics(&m)
	registry := prometheus.NewRegistry() // of this request alone: the set has its figures
	if err := registry.Register(&m); err != nil {
		writeError(w, err)
		return
	}
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

func (a *Admin) addServerMetrics(m *metricSet) {
	m.beginFamily("build_info", gauge, "What runs: always 1.")
	m.addSample(1, "version", a.o.Version, "go", runtime.Version(), "durability", a.o.Durability, "storage", a.storageKind())
	m.addSingle("start_time_seconds", gauge, "When the server has started.", float64(a.startedAt.UnixMilli())/1000)
	ready := 1.0
	for _, c := range a.checkReadiness() {
		if !c.OK {
			ready = 0
		}
	}
	m.addSingle("ready", gauge, "Whether /readyz says yes.", ready)
	c := a.o.Server.Counts()
	m.addSingle("clients", gauge, "Redis clients that are connected.", float64(c.Clients))
	m.addSingle("clients_max", gauge, "How many there may be.", float64(c.MaxClients))
	m.addSingle("connections_total", counter, "Redis clients that have connected.", float64(c.Connections))
	m.addSingle("connections_refused_total", counter, "Redis clients that were turned away.", float64(c.Refused))
	m.addSingle("requests_too_large_total", counter, "Requests of Redis clients that were refused because they are too large.", float64(c.TooLarge))
	used, limit := a.o.Server.Memory()
	m.addSingle("memory_bytes", gauge, "What of the store is in memory.", float64(used))
	m.addSingle("memory_max_bytes", gauge, "How much may be, if all of it is there; 0 for no limit.", float64(limit))
	m.beginFamily("commands_total", counter, "Requests of Redis clients by command.")
	for _, n := range c.Commands {
		m.addSample(float64(n.Calls), "command", n.Name)
	}
	m.beginFamily("commands_rejected_total", counter, "Requests that were refused before they began, by command.")
	for _, n := range c.Commands {
		m.addSample(float64(n.Rejected), "command", n.Name)
	}
	m.beginFamily("command_errors_total", counter, "Answers that are errors, by the word that they begin with.")
	for _, word := range listErrorWords(c) {
		m.addSample(float64(c.Errors[word]), "error", word)
	}
	m.addSingle("slowlog_entries", gauge, "Slow requests that are kept.", float64(len(a.o.Server.Slowlog())))
}

// listErrorWords are the words of errors that are ours: capital letters. Scripts and clients
// can make others, and those may be anything.
func listErrorWords(c server.Counts) (words []string) {
	for _, word := range slices.Sorted(maps.Keys(c.Errors)) {
		if len(word) <= 16 && word != "" && strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" {
			words = append(words, word)
		}
	}
	return words
}

func (a *Admin) addStoreMetrics(m *metricSet, of cleave.Metrics) {
	m.addSingle("keyspaces", gauge, "Keyspaces, those of entries of indexes included.", float64(of.Keyspaces))
	m.beginFamily("transactions_total", counter, "Commits by how far apart their keys are: one group, several of a store, several stores.")
	m.addSample(float64(of.Transactions.OneGroup), "way", "one_group")
	m.addSample(float64(of.Transactions.Joint), "way", "joint")
	m.addSample(float64(of.Transactions.TwoPhase), "way", "two_phase")
	m.addSingle("transaction_retries_total", counter, "Conflicts after which a transaction was tried again.", float64(of.Transactions.Retries))
	m.addSingle("transactions_open", gauge, "Transactions across stores that have not come to their end.", float64(of.Transactions.Open))
	m.addSingle("scattered_reads_total", counter, "Scans and reads of several keys that met several shards.", float64(of.Transactions.Scattered))
	for _, f := range storeMetrics {
		m.beginFamily(f.name, f.kind, f.help)
		for i := range of.Stores {
			m.addSample(f.value(&of.Stores[i]), "store", strconv.Itoa(i))
		}
	}
	for _, h := range []struct {
		name, help string
		histogram  func(*cleave.StoreMetrics) *actor.Histogram
	}{
		{"queue_wait_seconds", "How long commands waited for their batch to begin: samples.", func(s *cleave.StoreMetrics) *actor.Histogram { return &s.QueueWait }},
		{"batch_seconds", "How long batches took, the wait for the disk included: samples.", func(s *cleave.StoreMetrics) *actor.Histogram { return &s.Service }},
	} {
		m.beginFamily(h.name, 0, h.help)
		for i := range of.Stores {
			m.addHistogram(h.histogram(&of.Stores[i]), "store", strconv.Itoa(i))
		}
	}
}

// storeMetrics are those that each store has.
var storeMetrics = []struct {
	name  string
	kind  prometheus.ValueType
	help  string
	value func(*cleave.StoreMetrics) float64
}{
	{"log_written_bytes_total", counter, "Bytes written to the log.", func(s *cleave.StoreMetrics) float64 { return float64(s.LogBytes) }},
	{"log_commits_total", counter, "Writes of the log, each shared by all who waited.", func(s *cleave.StoreMetrics) float64 { return float64(s.LogFrames) }},
	{"log_syncs_total", counter, "Syncs of the log.", func(s *cleave.StoreMetrics) float64 { return float64(s.LogSyncs) }},
	{"cache_rows", gauge, "Rows in memory.", func(s *cleave.StoreMetrics) float64 { return float64(s.CacheRows) }},
	{"cache_bytes", gauge, "What rows in memory take.", func(s *cleave.StoreMetrics) float64 { return float64(s.CacheBytes) }},
	{"cache_hits_total", counter, "Looks at rows that memory could answer.", func(s *cleave.StoreMetrics) float64 { return float64(s.CacheHits) }},
	{"cache_misses_total", counter, "Rows that were looked for on disk.", func(s *cleave.StoreMetrics) float64 { return float64(s.CacheMisses) }},
	{"cache_evictions_total", counter, "Rows that made room for others.", func(s *cleave.StoreMetrics) float64 { return float64(s.CacheEvictions) }},
	{"unapplied_bytes", gauge, "What is committed and not in the tables yet.", func(s *cleave.StoreMetrics) float64 { return float64(s.UnappliedBytes) }},
	{"commit_waits_total", counter, "Commits that waited for the tables.", func(s *cleave.StoreMetrics) float64 { return float64(s.CommitWaits) }},
	{"commit_wait_seconds_total", counter, "How long commits waited for the tables: writers are held up by the durability lag.", func(s *cleave.StoreMetrics) float64 { return s.CommitWaited.Seconds() }},
	{"applier_stalled_seconds_total", counter, "How long the tables waited for the disk.", func(s *cleave.StoreMetrics) float64 { return s.ApplierStalled.Seconds() }},
	{"table_bytes", gauge, "The size of the tables.", func(s *cleave.StoreMetrics) float64 { return float64(s.TableBytes) }},
	{"compactions_total", counter, "Compactions of the tables.", func(s *cleave.StoreMetrics) float64 { return float64(s.Compactions) }},
	{"compaction_debt_bytes", gauge, "What is left to compact.", func(s *cleave.StoreMetrics) float64 { return float64(s.CompactionDebtBytes) }},
	{"queue_depth", gauge, "Commands that wait.", func(s *cleave.StoreMetrics) float64 { return float64(s.QueueDepth) }},
	{"executed_total", counter, "Commands that groups have executed, housekeeping included.", func(s *cleave.StoreMetrics) float64 { return float64(s.Commands) }},
	{"refused_total", counter, "Commands that were turned away because too many waited.", func(s *cleave.StoreMetrics) float64 { return float64(s.Refused) }},
	{"batches_total", counter, "Batches in which they were executed.", func(s *cleave.StoreMetrics) float64 { return float64(s.Batches) }},
	{"disk_full", gauge, "Whether writes are refused because the disk is full.", func(s *cleave.StoreMetrics) float64 { return boolToFloat(s.DiskFull) }},
	{"store_failed", gauge, "Whether the store has stopped.", func(s *cleave.StoreMetrics) float64 { return boolToFloat(s.Failed != nil) }},
}

func boolToFloat(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func (a *Admin) addShardMetrics(m *metricSet, r *http.Request) error {
	shards, err := a.loadCachedShards(r.Context())
	if err != nil {
		return err
	}
	m.addSingle("map_version", gauge, "The version of the map of shards.", float64(a.o.DB.Map().Version()))
	m.addSingle("shards", gauge, "Shards.", float64(len(shards)))
	m.addSingle("groups", gauge, "Groups.", float64(len(a.o.DB.Groups())))
	jobs, err := a.loadJobs(r.Context())
	if err != nil {
		return err
	}
	running, unchanged := countRunning(jobs, a.o.Now())
	m.addSingle("jobs_running", gauge, "Jobs under way.", float64(running))
	m.addSingle("jobs_unchanged_seconds", gauge, "The longest time for which a job under way has not come further; one that is paused does not count.", unchanged.Seconds())
	a.addLoadMetrics(m, shards)
	top := slices.Clone(shards)
	slices.SortStableFunc(top, func(p, q cleave.Shard) int { return cmp.Compare(q.Bytes, p.Bytes) })
	top = top[:min(len(top), maxShardSeries)]
	m.beginFamily("shard_bytes", gauge, fmt.Sprintf("About what shards hold: the %d that hold most.", maxShardSeries))
	for _, s := range top {
		m.addSample(float64(s.Bytes), "shard", strconv.FormatUint(uint64(s.ID), 10))
	}
	m.beginFamily("shard_rows", gauge, "About how many rows these have.")
	for _, s := range top {
		m.addSample(float64(s.Rows), "shard", strconv.FormatUint(uint64(s.ID), 10))
	}
	return nil
}

func (a *Admin) addHTTPMetrics(m *metricSet) {
	m.beginFamily("http_requests_total", counter, "Requests of operators.")
	panics := a.requests.forEach(func(of requestLabels, n uint64, _ time.Duration) {
		m.addSample(float64(n), "path", of.path, "method", of.method, "status", strconv.Itoa(of.status))
	})
	m.beginFamily("http_request_seconds_total", counter, "How long they took. A stream of live answers takes as long as its client stays.")
	a.requests.forEach(func(of requestLabels, _ uint64, took time.Duration) {
		m.addSample(took.Seconds(), "path", of.path, "method", of.method, "status", strconv.Itoa(of.status))
	})
	m.addSingle("http_live_streams", gauge, "Clients that are sent live answers.", float64(a.live.countStreams()))
	m.addSingle("http_live_evaluations_total", counter, "How often an answer was made to see whether it has changed.", float64(a.live.evaluations.Load()))
	m.addSingle("http_live_events_total", counter, "Answers that were sent to streams, because they were new or have changed.", float64(a.live.events.Load()))
	m.addSingle("http_panics_total", counter, "Mistakes of the server.", float64(panics))
	m.addSingle("http_denied_total", counter, "Changes that were asked for without the token.", float64(a.audit.countDenied()))
}

// addProcessMetrics reports what the process takes, without stopping it to look.
func addProcessMetrics(m *metricSet) {
	samples := []metrics.Sample{
		{Name: "/sched/goroutines:goroutines"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/gc/cycles/total:gc-cycles"},
	}
	metrics.Read(samples)
	m.addSingle("goroutines", gauge, "Goroutines.", float64(samples[0].Value.Uint64()))
	m.addSingle("heap_bytes", gauge, "Objects in the heap.", float64(samples[1].Value.Uint64()))
	m.addSingle("runtime_memory_bytes", gauge, "What the runtime has of the system.", float64(samples[2].Value.Uint64()))
	m.addSingle("gc_cycles_total", counter, "Garbage collections.", float64(samples[3].Value.Uint64()))
}

// metricSet is the figures of one request, as a collector of Prometheus.
type metricSet struct {
	metrics []prometheus.Metric
	// The family that samples are added to. Its description depends on their labels.
	name, help string
	kind       prometheus.ValueType
	desc       *prometheus.Desc
}

// Describe describes nothing: the registry checks each figure as it is collected instead.
func (m *metricSet) Describe(chan<- *prometheus.Desc) {}

// Collect hands over the figures.
func (m *metricSet) Collect(to chan<- prometheus.Metric) {
	for _, x := range m.metrics {
		to <- x
	}
}

// beginFamily begins a family: what is added from now on belongs to it.
func (m *metricSet) beginFamily(name string, kind prometheus.ValueType, help string) {
	m.name, m.help, m.kind, m.desc = prometheus.BuildFQName("cleave", "", name), help, kind, nil
}

// splitLabels divides pairs of a name and a value, and describes the family by the names of its first
// sample: all samples of a family have the same.
func (m *metricSet) splitLabels(pairs []string) (values []string) {
	var names []string
	for p := range slices.Chunk(pairs, 2) {
		names, values = append(names, p[0]), append(values, p[1])
	}
	if m.desc == nil {
		m.desc = prometheus.NewDesc(m.name, m.help, names, nil)
	}
	return values
}

// add adds a figure, or the reason why there is none, which fails the request.
func (m *metricSet) add(x prometheus.Metric, err error) {
	if err != nil {
		x = prometheus.NewInvalidMetric(m.desc, err)
	}
	m.metrics = append(m.metrics, x)
}

// addSample adds one figure. Labels are pairs of a name and a value.
func (m *metricSet) addSample(value float64, labels ...string) {
	values := m.splitLabels(labels)
	m.add(prometheus.NewConstMetric(m.desc, m.kind, value, values...))
}

// addSingle adds a family of one figure.
func (m *metricSet) addSingle(name string, kind prometheus.ValueType, help string, value float64) {
	m.beginFamily(name, kind, help)
	m.addSample(value)
}

// The buckets that are reported, of those by powers of two: from about 1 µs to about 17 s,
// each four times the one before.
const (
	firstBucket = 10
	lastBucket  = 34
)

// addHistogram adds a histogram. Counts are by powers of two nanoseconds, so the upper
// ends of buckets are exact.
func (m *metricSet) addHistogram(h *actor.Histogram, labels ...string) {
	buckets := map[float64]uint64{}
	sum, next := uint64(0), 0
	for i := firstBucket; i <= lastBucket; i += 2 {
		for ; next <= i; next++ {
			sum += h.Counts[next]
		}
		buckets[float64(uint64(1)<<i)/1e9] = sum
	}
	values := m.splitLabels(labels)
	m.add(prometheus.NewConstHistogram(m.desc, h.Count(), float64(h.SumNS)/1e9, buckets, values...))
}

// requestStats counts requests by path, method and status. Paths are those of the table and not
// what was asked for, so that there are only so many.
type requestStats struct {
	mu       sync.Mutex
	byLabels map[requestLabels]*requestTotals
	panics   uint64
}

type requestLabels struct {
	path, method string
	status       int
}

type requestTotals struct {
	n         uint64
	totalTime time.Duration
}

// countedMethods are those that are counted apart.
var countedMethods = []string{"GET", "HEAD", "POST", "DELETE"}

func (c *requestStats) recordRequest(method, pattern string, status int, took time.Duration) {
	if !slices.Contains(countedMethods, method) {
		method = "other"
	}
	_, path, ok := strings.Cut(pattern, " ")
	if !ok {
		path = pattern
	}
	if path == "" || path == "/" {
		path = "none"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byLabels == nil {
		c.byLabels = map[requestLabels]*requestTotals{}
	}
	of := requestLabels{path, method, status}
	if c.byLabels[of] == nil {
		c.byLabels[of] = &requestTotals{}
	}
	c.byLabels[of].n++
	c.byLabels[of].totalTime += took
}

func (c *requestStats) recordPanic() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.panics++
}

// forEach calls f with what was counted, in order.
func (c *requestStats) forEach(f func(of requestLabels, n uint64, took time.Duration)) (panics uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []requestLabels
	for of := range c.byLabels {
		all = append(all, of)
	}
	slices.SortFunc(all, func(x, y requestLabels) int {
		return cmp.Or(cmp.Compare(x.path, y.path), cmp.Compare(x.method, y.method), cmp.Compare(x.status, y.status))
	})
	for _, of := range all {
		f(of, c.byLabels[of].n, c.byLabels[of].totalTime)
	}
	return c.panics
}
