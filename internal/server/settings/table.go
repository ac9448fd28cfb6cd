package settings

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

	"github.com/cleavekv/cleave/internal/ops/oplog"
	"github.com/cleavekv/cleave/internal/server/glob"
	"github.com/cleavekv/cleave/internal/server/pubsub"
	"github.com/cleavekv/cleave/internal/server/redis"
)

// Table is what clients may ask for and change: see settings.go.
type Table struct {
	mu        sync.Mutex
	values    map[string]string
	defaults  map[string]string // the first values: they show which settings are numbers, and which are yes or no
	immutable map[string]string // those that cannot be changed while the server runs
	onDisk    bool              // maxmemory is not for the store
}

// signedSettings are the numbers that may be less than 0.
var signedSettings = map[string]bool{
	"list-max-listpack-size": true, "list-max-ziplist-size": true,
}

// NewTable returns the settings of a server with their first values.
func NewTable(o *Start) *Table {
	c := &Table{immutable: immutableSettings(o), values: firstSettings(o), onDisk: !o.Memory}
	c.defaults = maps.Clone(c.values)
	return c
}

// SetListenAddr notes where the server is found: the port of an address is the setting of a name.
func (c *Table) SetListenAddr(name string, at net.Addr) {
	tcp, ok := at.(*net.TCPAddr)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.values[name] = strconv.Itoa(tcp.Port)
	c.values["bind"] = tcp.IP.String()
}

// Number returns the value of a setting that is a number.
func (c *Table) Number(name string) int64 {
	n, _ := strconv.ParseInt(c.Get(name), 10, 64) // it is a number: see set
	return n
}

// Get returns the value of a setting.
func (c *Table) Get(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.values[name]
}

// MatchPatterns returns the settings that fit patterns, by name.
func (c *Table) MatchPatterns(patterns [][]byte) (names []string, values map[string]string) {
	c.mu.Lock()
	all := maps.Clone(c.values) // others need not wait for patterns that take long
	c.mu.Unlock()
	values = map[string]string{}
	for name, value := range all {
		for _, p := range patterns {
			if glob.Match([]byte(strings.ToLower(string(p))), []byte(name)) {
				values[name] = value
			}
		}
	}
	return slices.Sorted(maps.Keys(values)), values
}

// maxSlowlogLen is how many slow requests are kept at most.
const maxSlowlogLen = 100_000

// Set changes settings, given as names and values: all or none.
func (c *Table) Set(args [][]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := map[string]string{}
	for i := 0; i < len(args); i += 2 {
		name := strings.ToLower(string(args[i]))
		_, known := c.values[name]
		_, twice := changed[name]
		switch {
		case !known:
			return redis.Error("ERR Unknown option or number of arguments for CONFIG SET - '" + name + "'")
		case twice:
			return redis.Error("ERR CONFIG SET failed (possibly related to argument '" + name + "') - duplicate parameter")
		}
		value, err := c.check(name, string(args[i+1]))
		if err != nil {
			return redis.Error("ERR CONFIG SET failed (possibly related to argument '" + name + "') - " + err.Error())
		}
		changed[name] = value
	}
	maps.Copy(c.values, changed)
	return nil
}

// errNoMaxmemory refuses maxmemory of a store on disk.
var errNoMaxmemory = errors.New("maxmemory is for storage memory; a store on disk keeps more keys than fit in memory: set cache-mib and block-cache-mib when the server starts")

// check returns a value of a setting in the form in which it is kept, or why it is refused: it is none, or it would
// have no effect. The value that a setting has is always accepted. REQUIRES: c.mu held.
func (c *Table) check(name, text string) (string, error) {
	value, err := c.parseSetting(name, text)
	_, immutable := c.immutable[name]
	reason := constantReasons[name]
	switch {
	case err == nil && (value == c.values[name] || reason != "" && strings.EqualFold(value, c.values[name])):
		return c.values[name], nil
	case immutable:
		return "", errors.New("can't set immutable config: start the server with another --" + flagOf(name))
	case err != nil:
		return "", err
	case reason != "":
		return "", errors.New(reason)
	case name == "maxmemory" && c.onDisk:
		return "", errNoMaxmemory
	}
	return value, nil
}

// flagOf returns the flag of cleave serve for a setting that clients know.
func flagOf(name string) string {
	if name == "dir" {
		return "data"
	}
	return name
}

// parseSetting returns a value of a setting in the form in which it is kept: a number without a
// unit, and yes and no in small letters.
func (c *Table) parseSetting(name, value string) (string, error) {
	switch name {
	case "client-output-buffer-limit":
		_, err := ParseBufferLimits(value, BufferLimits{})
		return value, err
	case "loglevel":
		value = strings.ToLower(value)
		if _, ok := oplog.ParseLevel(value); !ok {
			return "", errors.New("argument(s) must be one of the following: " + strings.Join(oplog.LevelNames(), ", "))
		}
		return value, nil
	case "notify-keyspace-events":
		classes, err := pubsub.ParseClasses(value)
		return classes.String(), err
	case "latency-tracking-info-percentiles":
		list, err := ParsePercentiles(value)
		return strings.Trim(fmt.Sprint(list), "[]"), err
	}
	first := c.defaults[name] // not the value of now: that of a text may look like a number
	if _, err := strconv.ParseInt(first, 10, 64); err == nil {
		return parseNumber(name, value)
	}
	if first == "yes" || first == "no" {
		value = strings.ToLower(value)
		if value != "yes" && value != "no" {
			return "", errors.New("argument must be 'yes' or 'no'")
		}
	}
	return value, nil
}

// numberBounds are the bounds of settings that are numbers without a unit, as in Redis but for
// slowlog-max-len.
var numberBounds = map[string]struct{ least, most int64 }{
	"timeout":                   {0, math.MaxInt32},
	"slowlog-log-slower-than":   {-1, math.MaxInt64},
	"slowlog-max-len":           {0, maxSlowlogLen},
	"latency-monitor-threshold": {0, math.MaxInt64},
}

// parseNumber returns a setting that is a number, without its unit.
func parseNumber(name, value string) (string, error) {
	n, ok := parseBytes(value)
	least, most := int64(0), int64(math.MaxInt64)
	if bounds, bounded := numberBounds[name]; bounded {
		n, ok = redis.ParseInteger([]byte(value))
		least, most = bounds.least, bounds.most
	} else if signedSettings[name] {
		least = math.MinInt64
	}
	switch {
	case !ok:
		return "", errors.New("argument couldn't be parsed into an integer")
	case n < least || n > most:
		return "", fmt.Errorf("argument must be between %d and %d inclusive", least, most)
	}
	return strconv.FormatInt(n, 10), nil
}

// parseBytes reads a number of bytes, such as 64mb.
func parseBytes(s string) (n int64, ok bool) {
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

// ParsePercentiles reads a list of percentages.
func ParsePercentiles(text string) (list []float64, err error) {
	for _, word := range strings.Fields(text) {
		p, err := strconv.ParseFloat(word, 64)
		if err != nil || !(p >= 0 && p <= 100) {
			return nil, errors.New("the percentiles should be numbers from 0 to 100")
		}
		list = append(list, p)
	}
	return list, nil
}
