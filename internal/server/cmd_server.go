package server

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/internal/cputime"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/server/conn"
	"github.com/cleavekv/cleave/internal/server/pubsub"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/server/settings"
)

func init() {
	registerHandlers(map[string]func(*call){
		"time": func(t *call) {
			now := t.s.opts.Now()
			t.out.Array(2)
			t.out.Text(strconv.FormatInt(now.Unix(), 10))
			t.out.Text(strconv.Itoa(now.Nanosecond() / 1000))
		},
		"lastsave": func(t *call) { t.out.Int(t.s.opts.Now().Unix()) },
		"lolwut":   func(t *call) { t.out.Verbatim("Cleave " + t.s.opts.Version + "\n") },
		"role": func(t *call) {
			t.out.Array(3)
			t.out.Text("master")
			t.out.Int(0)
			t.out.Array(0)
		},
		"wait":           handleWait,
		"module|list":    handleModuleList,
		"module|help":    newHelpHandler("MODULE", "LIST", "    Return a list of loaded modules."),
		"function|flush": handleFunctionFlush,
		"function|list":  handleFunctionList,
		"object|help": newHelpHandler("OBJECT", "ENCODING <key>", "    Return the kind of internal representation used in order to store the value", "    associated with a <key>.",
			"FREQ <key>", "    Return the access frequency index of the <key>.", "IDLETIME <key>", "    Return the idle time of the <key>.",
			"REFCOUNT <key>", "    Return the number of references of the value associated with the specified", "    <key>."),
	})
	registerBlockingHandlers(map[string]func(*call){"info": handleInfo})
}

// newRunID returns a name for this run of the server.
func newRunID() string {
	var b [20]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// handleWait checks its arguments in the order of Redis, and does not wait.
func handleWait(t *call) {
	_, isNumber := redis.ParseInteger(t.Args[1])
	timeout, isTimeout := redis.ParseInteger(t.Args[2])
	switch {
	case !isNumber:
		t.out.Fail(redis.ErrNotInteger)
	case !isTimeout:
		t.out.Fail(redis.Error("ERR timeout is not an integer or out of range"))
	case timeout < 0:
		t.out.Fail(redis.Error("ERR timeout is negative"))
	default:
		t.out.Int(0)
	}
}

func handleFunctionFlush(t *call) {
	switch {
	case len(t.Args) > 3:
		t.out.Fail(redis.SubcommandArity(&t.Request))
	case len(t.Args) == 3 && !redis.IsKeyword(t.Args[2], "SYNC") && !redis.IsKeyword(t.Args[2], "ASYNC"):
		t.out.Fail(redis.Error("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"))
	default:
		t.out.OK()
	}
}

func handleFunctionList(t *call) {
	withCode, named := false, false
	for i := 2; i < len(t.Args); i++ {
		switch {
		case !withCode && redis.IsKeyword(t.Args[i], "WITHCODE"):
			withCode = true
		case !named && redis.IsKeyword(t.Args[i], "LIBRARYNAME"):
			if i++; i == len(t.Args) {
				t.out.Fail(redis.Error("ERR library name argument was not given"))
				return
			}
			named = true
		default:
			t.out.Fail(redis.Error("ERR Unknown argument " + redis.Printed(t.Args[i])))
			return
		}
	}
	t.out.Array(0)
}

// handleModuleList names the commands that are ours alone, as if a module had brought them, so
// that programs which look for them find them.
func handleModuleList(t *call) {
	t.out.Array(1)
	replyMap{{"name", redis.ModuleName}, {"ver", moduleVersion}, {"path", ""}}.writeReply(t.out)
}

// moduleVersion is 1.0.0, in the form that modules have.
const moduleVersion = 10000

// infoSection is a part of INFO.
type infoSection struct {
	name      string
	isDefault bool // it is part of the default sections
	write     func(*Server, *strings.Builder)
}

var infoSections = []infoSection{
	{"server", true, infoServer}, {"clients", true, infoClients}, {"memory", true, infoMemory}, {"persistence", true, infoPersistence},
	{"stats", true, infoStats}, {"replication", true, infoReplication}, {"cpu", true, infoCPU}, {"modules", true, func(*Server, *strings.Builder) {}},
	{"commandstats", false, infoCommands}, {"latencystats", false, infoLatencies}, {"errorstats", true, infoErrors}, {"cluster", true, infoCluster}, {"keyspace", true, infoKeyspace},
}

func handleInfo(t *call) {
	wanted, all := map[string]bool{}, false
	for _, a := range t.Args[1:] {
		switch name := strings.ToLower(string(a)); name {
		case "all", "everything":
			all = true
		case "default":
			for _, s := range infoSections {
				wanted[s.name] = wanted[s.name] || s.isDefault
			}
		default:
			wanted[name] = true
		}
	}
	var b strings.Builder
	for _, s := range infoSections {
		if !all && !wanted[s.name] && (len(t.Args) > 1 || !s.isDefault) {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		fmt.Fprintf(&b, "# %s\r\n", strings.ToUpper(s.name[:1])+s.name[1:])
		s.write(t.s, &b)
	}
	t.out.Verbatim(b.String())
}

// writeInfoLines writes pairs of names and values.
func writeInfoLines(b *strings.Builder, pairs ...any) {
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(b, "%v:%v\r\n", pairs[i], pairs[i+1])
	}
}

func infoServer(s *Server, b *strings.Builder) {
	up := int64(s.opts.Now().Sub(s.startedAt).Seconds())
	writeInfoLines(b, "redis_version", redisVersion, "cleave_version", s.opts.Version, "redis_mode", s.mode(), "os", runtime.GOOS+" "+runtime.GOARCH,
		"arch_bits", strconv.IntSize, "go_version", runtime.Version(), "process_id", os.Getpid(), "run_id", s.runID,
		"tcp_port", s.config.Get("port"), "server_time_usec", s.opts.Now().UnixMicro(), "uptime_in_seconds", up, "uptime_in_days", up/86400,
		"durability", s.opts.Fsync)
}

func infoClients(s *Server, b *strings.Builder) {
	listening := 0
	s.clients.ForEach(func(c *conn.Conn) {
		if s.hub.CountSubscriptions(c) != [pubsub.ScopeCount]int{} {
			listening++
		}
	})
	writeInfoLines(b, "connected_clients", s.clients.Len(), "maxclients", s.opts.Clients, "blocked_clients", 0, "tracking_clients", s.tracker.Len(), "pubsub_clients", listening)
}

// formatBytes is a number of bytes for people.
func formatBytes(n uint64) string {
	units := []string{"B", "K", "M", "G", "T"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	return fmt.Sprintf("%.2f%s", f, units[i])
}

func infoPersistence(s *Server, b *strings.Builder) {
	writeInfoLines(b, "loading", 0, "async_loading", 0, "rdb_changes_since_last_save", 0, "rdb_bgsave_in_progress", 0, "rdb_last_bgsave_status", "ok",
		"aof_enabled", 1, "aof_rewrite_in_progress", 0, "aof_last_write_status", "ok", "appendfsync", s.opts.Fsync)
}

func infoStats(s *Server, b *strings.Builder) {
	failed := uint64(0)
	for _, n := range s.stats.ErrorCounts() {
		failed += n
	}
	requests, in, out := s.stats.PerSecond()
	writeInfoLines(b, "total_connections_received", s.stats.Connections.Load(), "total_commands_processed", s.stats.TotalCalls(),
		"instantaneous_ops_per_sec", int64(requests), "total_net_input_bytes", s.stats.BytesIn.Load(), "total_net_output_bytes", s.stats.BytesOut.Load(),
		"instantaneous_input_kbps", fmt.Sprintf("%.2f", in/1024), "instantaneous_output_kbps", fmt.Sprintf("%.2f", out/1024),
		"rejected_connections", s.stats.RefusedClients.Load(), "clients_closed_for_limits", s.stats.ClosedClients.Load(), "requests_too_large", s.stats.LargeRequests.Load(), "io_threads_active", s.clients.UsedLoops(), "throttled_writes", s.countThrottled(), "write_limits", len(s.node.WriteLimits().List()), "moved_clients", s.clients.MovedConnections.Load(), "expired_keys", s.countExpired()-s.stats.ExpiredAtReset.Load(), "evicted_keys", 0,
		"pubsub_channels", s.hub.CountNames(pubsub.ByChannel), "pubsub_patterns", s.hub.CountPatterns(), "pubsubshard_channels", s.hub.CountNames(pubsub.BySlot),
		"total_error_replies", failed)
}

// countExpired is how many keys were deleted since the store was opened because their time was over.
func (s *Server) countExpired() (n uint64) {
	for _, h := range s.node.StoreHosts() {
		for _, p := range h.GroupHosts() {
			n += p.Group.Metrics().Expired
		}
	}
	return n
}

func infoReplication(s *Server, b *strings.Builder) {
	writeInfoLines(b, "role", "master", "connected_slaves", 0, "master_replid", s.runID, "master_repl_offset", 0)
}

func infoCPU(_ *Server, b *strings.Builder) {
	user, system := cputime.Used()
	writeInfoLines(b, "used_cpu_sys", fmt.Sprintf("%.6f", system.Seconds()), "used_cpu_user", fmt.Sprintf("%.6f", user.Seconds()))
}

func infoCommands(s *Server, b *strings.Builder) {
	for _, spec := range redis.AllSpecs() {
		if c := s.stats.CountsOf(spec); c.Calls+c.Rejected > 0 {
			micros := c.Took.Microseconds()
			fmt.Fprintf(b, "cmdstat_%s:calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d\r\n",
				spec.Name, c.Calls, micros, float64(micros)/float64(max(1, c.Calls)), c.Rejected, c.Failed)
		}
	}
}

func infoLatencies(s *Server, b *strings.Builder) {
	percentiles, _ := settings.ParsePercentiles(s.config.Get("latency-tracking-info-percentiles")) // they are numbers: see config.set
	for _, spec := range redis.AllSpecs() {
		micros := s.stats.QuantilesOf(spec, percentiles)
		if !s.stats.TracksLatency.Load() || len(micros) == 0 {
			continue
		}
		var list []string
		for i, p := range percentiles {
			list = append(list, fmt.Sprintf("p%v=%.3f", p, micros[i]))
		}
		fmt.Fprintf(b, "latency_percentiles_usec_%s:%s\r\n", spec.Name, strings.Join(list, ","))
	}
}

func infoErrors(s *Server, b *strings.Builder) {
	counts := s.stats.ErrorCounts()
	for _, word := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(b, "errorstat_%s:count=%d\r\n", word, counts[word])
	}
}

func infoCluster(s *Server, b *strings.Builder) {
	enabled := 0
	if s.opts.Cluster {
		enabled = 1
	}
	writeInfoLines(b, "cluster_enabled", enabled)
}

// mode is what INFO and HELLO report the server to be.
func (s *Server) mode() string {
	if s.opts.Cluster {
		return "cluster"
	}
	return "standalone"
}

// maxInfoCountedKeys is how many keys INFO counts: it is asked for again and again, by what
// watches servers.
const maxInfoCountedKeys = 100_000

// infoKeyspace writes how many keys the default keyspace has, or about how many: see DBSIZE
// for a number that is always right.
func infoKeyspace(s *Server, b *strings.Builder) {
	if n, err := s.estimateKeys(s.defaultKeyspace(), maxInfoCountedKeys); err == nil && n.keys > 0 {
		fmt.Fprintf(b, "db0:keys=%d,expires=%d,avg_ttl=%d\r\n", n.keys, n.expires, n.ttlMS)
	}
}

// keyCount is about how many keys there are, how many of them expire, and in how many
// milliseconds on average.
type keyCount struct {
	keys, expires uint64
	ttlMS         int64
}

// estimateKeys counts so many keys of a keyspace. If there are more, it takes the rest to be
// like those: as many keys for each row as the stores think that there are.
func (s *Server) estimateKeys(k *node.Keyspace, most int) (n keyCount, err error) {
	var last []byte
	nowMS := s.opts.Now().UnixMilli()
	err = s.surveyKeys(s.ctx, k, k.Span(), most, func(found foundKey) bool {
		n.keys, last = n.keys+1, found.name
		if found.expiryMS != 0 {
			n.expires++
			n.ttlMS += max(0, found.expiryMS-nowMS)
		}
		return true
	})
	n.ttlMS /= int64(max(1, n.expires))
	if err != nil || n.keys < uint64(most) {
		return n, err
	}
	counted, all := k.Span(), k.Span()
	counted.End = k.AppendPosition(nil, last)
	part, err := s.node.EstimateRows(counted)
	if err != nil {
		return n, err
	}
	whole, err := s.node.EstimateRows(all)
	if err != nil || part == 0 {
		return n, err
	}
	times := max(1, float64(whole)/float64(part))
	n.keys, n.expires = uint64(float64(n.keys)*times), uint64(float64(n.expires)*times)
	return n, nil
}

func init() {
	registerBlockingHandlers(map[string]func(*call){"shutdown": handleShutdown}) // the audit log is synced
}

// handleShutdown asks for the end of the server, and answers nothing: the client sees that the
// connection ends. All that was acknowledged is kept, with SAVE and without. NOW and FORCE are
// about replicas, of which there are none.
func handleShutdown(t *call) {
	var save, noSave, abort bool
	for _, arg := range t.Args[1:] {
		switch {
		case redis.IsKeyword(arg, "SAVE"):
			save = true
		case redis.IsKeyword(arg, "NOSAVE"):
			noSave = true
		case redis.IsKeyword(arg, "ABORT"):
			abort = true
		case redis.IsKeyword(arg, "NOW"), redis.IsKeyword(arg, "FORCE"):
		default:
			t.out.Fail(redis.ErrSyntax)
			return
		}
	}
	switch {
	case save && noSave || abort && len(t.Args) > 2:
		t.out.Fail(redis.ErrSyntax)
	case abort:
		t.out.Fail(redis.Error("ERR No shutdown in progress."))
	case t.s.opts.Shutdown == nil:
		t.out.Fail(redis.Error("ERR SHUTDOWN is not served here: end the program that the server is part of"))
	default:
		t.s.opts.Log.Warn("a client ends the server", "id", t.c.ID, "addr", t.c.RemoteAddr, "user", t.c.Status.LoadInfo().User)
		t.s.opts.Shutdown()
	}
}
