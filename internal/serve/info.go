package serve

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/internal/cputime"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/redis"
)

func init() {
	handle(map[string]func(*turn){
		"time": func(t *turn) {
			now := t.s.opts.Now()
			t.out.Array(2)
			t.out.Text(strconv.FormatInt(now.Unix(), 10))
			t.out.Text(strconv.Itoa(now.Nanosecond() / 1000))
		},
		"lastsave": func(t *turn) { t.out.Int(t.s.opts.Now().Unix()) },
		"lolwut":   func(t *turn) { t.out.Verbatim("Cleave " + t.s.opts.Version + "\n") },
		"role": func(t *turn) {
			t.out.Array(3)
			t.out.Text("master")
			t.out.Int(0)
			t.out.Array(0)
		},
		"wait":           wait,
		"module|list":    moduleList,
		"module|help":    help("MODULE", "LIST", "    Return a list of loaded modules."),
		"function|flush": accept,
		"function|list":  func(t *turn) { t.out.Array(0) },
		"object|help": help("OBJECT", "ENCODING <key>", "    Return the kind of internal representation used in order to store the value", "    associated with a <key>.",
			"FREQ <key>", "    Return the access frequency index of the <key>.", "IDLETIME <key>", "    Return the idle time of the <key>.",
			"REFCOUNT <key>", "    Return the number of references of the value associated with the specified", "    <key>."),
	})
	handleSlow(map[string]func(*turn){"info": info})
}

// newRunID returns a name for this run of the server.
func newRunID() string {
	var b [20]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func wait(t *turn) {
	for _, a := range t.Args[1:] {
		if n, err := strconv.ParseInt(string(a), 10, 64); err != nil || n < 0 {
			t.out.Fail(redis.Error("ERR value is not an integer or out of range"))
			return
		}
	}
	t.out.Int(0)
}

// moduleList names the commands that are ours alone, as if a module had brought them, so
// that programs which look for them find them.
func moduleList(t *turn) {
	t.out.Array(1)
	facts{{"name", redis.Module}, {"ver", moduleVersion}, {"path", ""}}.write(t.out)
}

// moduleVersion is 1.0.0, in the form that modules have.
const moduleVersion = 10000

// section is a part of INFO.
type section struct {
	name  string
	usual bool // it is told without being asked for
	write func(*Server, *strings.Builder)
}

var sections = []section{
	{"server", true, infoServer}, {"clients", true, infoClients}, {"memory", true, infoMemory}, {"persistence", true, infoPersistence},
	{"stats", true, infoStats}, {"replication", true, infoReplication}, {"cpu", true, infoCPU}, {"modules", true, func(*Server, *strings.Builder) {}},
	{"commandstats", false, infoCommands}, {"latencystats", false, infoLatencies}, {"errorstats", true, infoErrors}, {"cluster", true, infoCluster}, {"keyspace", true, infoKeyspace},
}

func info(t *turn) {
	wanted, all := map[string]bool{}, false
	for _, a := range t.Args[1:] {
		switch name := strings.ToLower(string(a)); name {
		case "all", "everything":
			all = true
		case "default":
			for _, s := range sections {
				wanted[s.name] = wanted[s.name] || s.usual
			}
		default:
			wanted[name] = true
		}
	}
	var b strings.Builder
	for _, s := range sections {
		if !all && !wanted[s.name] && (len(t.Args) > 1 || !s.usual) {
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

// lines writes pairs of names and values.
func lines(b *strings.Builder, pairs ...any) {
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(b, "%v:%v\r\n", pairs[i], pairs[i+1])
	}
}

func infoServer(s *Server, b *strings.Builder) {
	up := int64(s.opts.Now().Sub(s.born).Seconds())
	lines(b, "redis_version", redisVersion, "cleave_version", s.opts.Version, "redis_mode", "standalone", "os", runtime.GOOS+" "+runtime.GOARCH,
		"arch_bits", strconv.IntSize, "go_version", runtime.Version(), "process_id", os.Getpid(), "run_id", s.runID,
		"tcp_port", s.config.get("port"), "server_time_usec", s.opts.Now().UnixMicro(), "uptime_in_seconds", up, "uptime_in_days", up/86400,
		"durability", s.opts.Fsync)
}

func infoClients(s *Server, b *strings.Builder) {
	listening := 0
	s.clients.each(func(c *client) {
		if s.hub.counts(c) != [scopes]int{} {
			listening++
		}
	})
	lines(b, "connected_clients", s.clients.len(), "maxclients", s.opts.Clients, "blocked_clients", 0, "tracking_clients", s.tracker.len(), "pubsub_clients", listening)
}

// human is a number of bytes for people.
func human(n uint64) string {
	units := []string{"B", "K", "M", "G", "T"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	return fmt.Sprintf("%.2f%s", f, units[i])
}

func infoPersistence(s *Server, b *strings.Builder) {
	lines(b, "loading", 0, "async_loading", 0, "rdb_changes_since_last_save", 0, "rdb_bgsave_in_progress", 0, "rdb_last_bgsave_status", "ok",
		"aof_enabled", 1, "aof_rewrite_in_progress", 0, "aof_last_write_status", "ok", "appendfsync", s.opts.Fsync)
}

func infoStats(s *Server, b *strings.Builder) {
	failed := uint64(0)
	s.stats.mu.Lock()
	for _, n := range s.stats.errors {
		failed += n
	}
	s.stats.mu.Unlock()
	requests, in, out := s.stats.rates.perSecond()
	lines(b, "total_connections_received", s.stats.connections.Load(), "total_commands_processed", s.stats.total(),
		"instantaneous_ops_per_sec", int64(requests), "total_net_input_bytes", s.stats.in.Load(), "total_net_output_bytes", s.stats.out.Load(),
		"instantaneous_input_kbps", fmt.Sprintf("%.2f", in/1024), "instantaneous_output_kbps", fmt.Sprintf("%.2f", out/1024),
		"rejected_connections", s.stats.refused.Load(), "clients_closed_for_limits", s.stats.closed.Load(), "expired_keys", s.expired()-s.stats.expired.Load(), "evicted_keys", 0,
		"pubsub_channels", len(s.hub.heard(byChannel, nil)), "pubsub_patterns", s.hub.patterns(), "pubsubshard_channels", len(s.hub.heard(bySlot, nil)),
		"total_error_replies", failed)
}

// expired is how many keys were deleted since the store was opened because their time was over.
func (s *Server) expired() (n uint64) {
	for _, h := range s.node.Hosts() {
		for _, p := range h.Parts() {
			n += p.Group.Metrics().Expired
		}
	}
	return n
}

func infoReplication(s *Server, b *strings.Builder) {
	lines(b, "role", "master", "connected_slaves", 0, "master_replid", s.runID, "master_repl_offset", 0)
}

func infoCPU(_ *Server, b *strings.Builder) {
	user, system := cputime.Used()
	lines(b, "used_cpu_sys", fmt.Sprintf("%.6f", system.Seconds()), "used_cpu_user", fmt.Sprintf("%.6f", user.Seconds()))
}

func infoCommands(s *Server, b *strings.Builder) {
	for _, spec := range redis.All() {
		c := &s.stats.commands[spec.Number]
		if n, r := c.calls.Load(), c.rejected.Load(); n+r > 0 {
			micros := c.times.sum.Load() / 1000
			fmt.Fprintf(b, "cmdstat_%s:calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d\r\n",
				spec.Name, n, micros, float64(micros)/float64(max(1, n)), r, c.failed.Load())
		}
	}
}

func infoLatencies(s *Server, b *strings.Builder) {
	percentiles, _ := percentilesOf(s.config.get("latency-tracking-info-percentiles")) // they are numbers: see config.set
	for _, spec := range redis.All() {
		micros := s.stats.commands[spec.Number].times.quantiles(percentiles)
		if !s.stats.measured.Load() || len(micros) == 0 {
			continue
		}
		var list []string
		for i, p := range percentiles {
			list = append(list, fmt.Sprintf("p%v=%.3f", p, micros[i]))
		}
		fmt.Fprintf(b, "latency_percentiles_usec_%s:%s\r\n", spec.Name, strings.Join(list, ","))
	}
}

// percentilesOf reads a list of percentages.
func percentilesOf(text string) (list []float64, err error) {
	for _, word := range strings.Fields(text) {
		p, err := strconv.ParseFloat(word, 64)
		if err != nil || !(p >= 0 && p <= 100) {
			return nil, errors.New("the percentiles should be numbers from 0 to 100")
		}
		list = append(list, p)
	}
	return list, nil
}

func infoErrors(s *Server, b *strings.Builder) {
	s.stats.mu.Lock()
	defer s.stats.mu.Unlock()
	for _, word := range slices.Sorted(maps.Keys(s.stats.errors)) {
		fmt.Fprintf(b, "errorstat_%s:count=%d\r\n", word, s.stats.errors[word])
	}
}

func infoCluster(_ *Server, b *strings.Builder) { lines(b, "cluster_enabled", 0) }

// infoCounted is how many keys INFO counts: it is asked for again and again, by what
// watches servers.
const infoCounted = 100_000

// infoKeyspace tells how many keys the default keyspace has, or about how many: see DBSIZE
// for a number that is always right.
func infoKeyspace(s *Server, b *strings.Builder) {
	if n, err := s.aboutKeys(s.defaultSpace(), infoCounted); err == nil && n.keys > 0 {
		fmt.Fprintf(b, "db0:keys=%d,expires=%d,avg_ttl=%d\r\n", n.keys, n.expires, n.ttlMS)
	}
}

// keyCount is about how many keys there are, how many of them expire, and in how many
// milliseconds on average.
type keyCount struct {
	keys, expires uint64
	ttlMS         int64
}

// aboutKeys counts so many keys of a keyspace. If there are more, it takes the rest to be
// like those: as many keys for each row as the stores think that there are.
func (s *Server) aboutKeys(k *node.Space, most int) (n keyCount, err error) {
	var last []byte
	nowMS := s.opts.Now().UnixMilli()
	err = s.walk(s.ctx, k, k.Span(), most, func(found key) bool {
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
	part, err := s.node.RowsIn(counted)
	if err != nil {
		return n, err
	}
	whole, err := s.node.RowsIn(all)
	if err != nil || part == 0 {
		return n, err
	}
	times := max(1, float64(whole)/float64(part))
	n.keys, n.expires = uint64(float64(n.keys)*times), uint64(float64(n.expires)*times)
	return n, nil
}
