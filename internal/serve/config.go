package serve

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/acl"
	"github.com/cleavekv/cleave/internal/glob"
	"github.com/cleavekv/cleave/internal/redis"
)

func init() {
	handle(map[string]func(*turn){
		"config|get":       configGet,
		"config|resetstat": func(t *turn) { t.s.stats.reset(t.s.expired()); t.out.OK() },
		"config|rewrite": func(t *turn) {
			t.out.Fail(redis.Error("ERR CONFIG REWRITE is not served: the file of settings is the operator's, and users are kept in the store"))
		},
		"config|help": help("CONFIG", "GET <pattern>", "    Return parameters matching the glob-like <pattern> and their values.",
			"SET <directive> <value>", "    Set the configuration <directive> to <value>.", "RESETSTAT", "    Reset statistics reported by the INFO command."),
	})
	handleSlow(map[string]func(*turn){"config|set": configSet})
}

// config is what clients may ask for and change. Some of it is Redis' business alone,
// such as how small values are stored: it is accepted, and has no effect, so that
// programs which set it work.
type config struct {
	mu     sync.Mutex
	values map[string]string
	first  map[string]string // the values at first: they tell which settings are numbers, and which are yes or no
}

// fixed are settings that cannot be changed while the server runs.
var fixed = map[string]bool{
	"appendfsync": true, "appendonly": true, "bind": true, "databases": true, "dir": true, "port": true, "tls-port": true, "maxclients": true, "save": false,
}

// signed are the numbers that may be less than 0.
var signed = map[string]bool{
	"slowlog-log-slower-than": true, "list-max-listpack-size": true, "list-max-ziplist-size": true, "rdb-key-save-delay": true, "key-load-delay": true,
}

func (c *config) init(s *Server) {
	c.values = map[string]string{
		"appendonly": "yes", "appendfsync": s.opts.Fsync, "databases": "1", "dir": s.opts.Dir, "maxclients": strconv.Itoa(s.opts.Clients),
		"maxmemory": "0", "maxmemory-policy": "noeviction", "maxmemory-samples": "5", "maxmemory-clients": "1073741824",
		"save": "", "timeout": "0", "tcp-keepalive": "300", "tcp-backlog": "511", "bind": "", "port": "0", "tls-port": "0",
		"slowlog-log-slower-than": "10000", "slowlog-max-len": "128", "latency-monitor-threshold": "0", "latency-tracking": "yes",
		"latency-tracking-info-percentiles": "50 99 99.9",
		"notify-keyspace-events":            "", "requirepass": "", "lua-time-limit": "5000", "busy-reply-threshold": "5000",
		"hash-max-listpack-entries": "128", "hash-max-listpack-value": "64", "hash-max-ziplist-entries": "128", "hash-max-ziplist-value": "64",
		"list-max-listpack-size": "-2", "list-max-ziplist-size": "-2", "list-compress-depth": "0",
		"set-max-intset-entries": "512", "set-max-listpack-entries": "128", "set-max-listpack-value": "64",
		"zset-max-listpack-entries": "128", "zset-max-listpack-value": "64", "zset-max-ziplist-entries": "128", "zset-max-ziplist-value": "64",
		"stream-node-max-bytes": "4096", "stream-node-max-entries": "100", "hll-sparse-max-bytes": "3000",
		"proto-max-bulk-len": "536870912", "client-query-buffer-limit": "1073741824",
		"client-output-buffer-limit": defaultBuffers,
		"activedefrag":               "no", "active-expire-effort": "1", "lazyfree-lazy-expire": "no", "lazyfree-lazy-user-del": "no",
		"lazyfree-lazy-user-flush": "no", "lazyfree-lazy-server-del": "no", "lfu-log-factor": "10", "lfu-decay-time": "1",
		"hz": "10", "dynamic-hz": "yes", "close-on-replica-write": "yes", "tracking-table-max-keys": "1000000", "loglevel": "notice",
		"rdbcompression": "yes", "rdbchecksum": "yes", "rdb-key-save-delay": "0", "key-load-delay": "0", "auto-aof-rewrite-percentage": "100",
		"aof-use-rdb-preamble": "yes", "stop-writes-on-bgsave-error": "yes", "min-replicas-to-write": "0", "repl-ping-replica-period": "10",
		"acllog-max-len": "128", "cluster-enabled": "no", "protected-mode": "yes",
	}
	c.first = maps.Clone(c.values)
}

// listens notes where the server is found: the port of an address is the setting of a name.
func (c *config) listens(name string, at net.Addr) {
	tcp, ok := at.(*net.TCPAddr)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.values[name] = strconv.Itoa(tcp.Port)
	c.values["bind"] = tcp.IP.String()
}

func (c *config) get(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.values[name]
}

// match returns the settings that fit patterns, by name.
func (c *config) match(patterns [][]byte) (names []string, values map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	values = map[string]string{}
	for name, value := range c.values {
		for _, p := range patterns {
			if glob.Match([]byte(strings.ToLower(string(p))), []byte(name)) {
				values[name] = value
			}
		}
	}
	return slices.Sorted(maps.Keys(values)), values
}

func configGet(t *turn) {
	names, values := t.s.config.match(t.Args[2:])
	t.out.Map(len(names))
	for _, name := range names {
		t.out.Text(name)
		t.out.Text(values[name])
	}
}

// configSet changes settings, all or none.
func configSet(t *turn) {
	args := t.Args[2:]
	if len(args)%2 != 0 {
		t.out.Fail(redis.Arity("config|set"))
		return
	}
	t.s.keeping.Lock()
	defer t.s.keeping.Unlock()
	if err := t.s.config.set(args); err != nil {
		t.out.Fail(err)
		return
	}
	t.s.configured(args)
	for i := 0; i < len(args); i += 2 {
		if redis.Is(args[i], "REQUIREPASS") {
			if err := t.s.keepUser(t.ctx, acl.DefaultName); err != nil {
				t.out.Fail(err)
				return
			}
			t.s.unkept = ""
		}
	}
	t.out.OK()
}

// configured does what follows from settings that were changed. Who calls it holds keeping.
func (s *Server) configured(args [][]byte) {
	for i := 0; i < len(args); i += 2 {
		if redis.Is(args[i], "REQUIREPASS") {
			rules := []string{"resetpass", "nopass"}
			if len(args[i+1]) > 0 {
				rules = []string{"resetpass", ">" + string(args[i+1])}
			}
			_ = s.users.Set(acl.DefaultName, rules...) // they are right
			s.unkept = string(args[i+1])
		}
	}
	least, _ := strconv.ParseInt(s.config.get("slowlog-log-slower-than"), 10, 64) // they are numbers: see set
	kept, _ := strconv.ParseInt(s.config.get("slowlog-max-len"), 10, 64)
	if limits, err := readBuffers(s.config.get("client-output-buffer-limit"), *s.buffers.limits.Load()); err == nil { // it is right: see set
		s.buffers.limits.Store(&limits)
	}
	most, _ := strconv.ParseInt(s.config.get("maxmemory-clients"), 10, 64)
	s.buffers.most.Store(most)
	limit, _ := strconv.ParseInt(s.config.get("maxmemory"), 10, 64)
	s.memory.limit.Store(limit)
	s.lookAtMemory()
	s.stats.measured.Store(s.config.get("latency-tracking") == "yes")
	long, _ := strconv.ParseInt(s.config.get("latency-monitor-threshold"), 10, 64)
	s.latencies.least.Store(int64(time.Duration(long) * time.Millisecond))
	s.slow.set(time.Duration(least)*time.Microsecond, int(max(0, min(kept, maxSlow))))
}

// maxSlow is how many slow requests are kept at most.
const maxSlow = 100_000

func (c *config) set(args [][]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := map[string]string{}
	for i := 0; i < len(args); i += 2 {
		name := strings.ToLower(string(args[i]))
		value, known := c.values[name]
		_, twice := changed[name]
		switch {
		case !known:
			return redis.Error("ERR Unknown option or number of arguments for CONFIG SET - '" + name + "'")
		case twice:
			return redis.Error("ERR CONFIG SET failed (possibly related to argument '" + name + "') - duplicate parameter")
		case fixed[name] && string(args[i+1]) != value:
			return redis.Error("ERR CONFIG SET failed (possibly related to argument '" + name + "') - can't set immutable config")
		}
		value, err := c.read(name, string(args[i+1]))
		if err != nil {
			return redis.Error("ERR CONFIG SET failed (possibly related to argument '" + name + "') - " + err.Error())
		}
		changed[name] = value
	}
	maps.Copy(c.values, changed)
	return nil
}

// read returns a value of a setting in the form in which it is kept: a number without a
// unit, and yes and no in small letters.
func (c *config) read(name, value string) (string, error) {
	switch name {
	case "client-output-buffer-limit":
		_, err := readBuffers(value, bufferLimits{})
		return value, err
	case "latency-tracking-info-percentiles":
		list, err := percentilesOf(value)
		return strings.Trim(fmt.Sprint(list), "[]"), err
	}
	first := c.first[name] // not the value of now: that of a text may look like a number
	if _, err := strconv.ParseInt(first, 10, 64); err == nil {
		n, ok := bytesOf(value)
		switch {
		case !ok:
			return "", errors.New("argument couldn't be parsed into an integer")
		case n < 0 && !signed[name]:
			return "", fmt.Errorf("argument must be between 0 and %d inclusive", math.MaxInt64)
		}
		return strconv.FormatInt(n, 10), nil
	}
	if first == "yes" || first == "no" {
		value = strings.ToLower(value)
		if value != "yes" && value != "no" {
			return "", errors.New("argument must be 'yes' or 'no'")
		}
	}
	return value, nil
}

// bytesOf reads a number of bytes, such as 64mb.
func bytesOf(s string) (n int64, ok bool) {
	digits := strings.TrimRight(strings.ToLower(s), "kmgb")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, false
	}
	units := map[string]int64{"": 1, "b": 1, "k": 1000, "kb": 1 << 10, "m": 1e6, "mb": 1 << 20, "g": 1e9, "gb": 1 << 30}
	unit, ok := units[strings.ToLower(s[len(digits):])]
	if !ok || n > (1<<63-1)/unit {
		return 0, false
	}
	return n * unit, true
}
