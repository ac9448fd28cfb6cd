package server

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/internal/cputime"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/shard/load"
)

func init() {
	registerHandlers(map[string]func(*call){
		"hotkeys|start": handleHotKeysStart,
		"hotkeys|stop":  handleHotKeysStop,
		"hotkeys|reset": handleHotKeysReset,
		"hotkeys|get":   handleHotKeysGet,
		"hotkeys|help": newHelpHandler("HOTKEYS", "START METRICS <count> [CPU] [NET] [COUNT <k>] [DURATION <seconds>] [SAMPLE <ratio>] [SLOTS <count> <slot> ...]",
			"    Begin to track hot keys.", "STOP", "    End it, and keep what was found.", "GET", "    Return what was found.", "RESET", "    Forget what was found."),
	})
}

const (
	// defaultHotKeyCount and maxHotKeyCount are how many keys HOTKEYS GET has, as in Redis.
	defaultHotKeyCount, maxHotKeyCount = 10, 64
	// trackedHotKeys is how many keys a session tracks by each metric: one with more than a thousandth of all is found.
	trackedHotKeys = 1024
	// maxHotKeySeconds bounds DURATION to a year.
	maxHotKeySeconds = 365 * 24 * 3600
)

// hotKeySession is one tracking of HOTKEYS. Beside the sample that is always on it counts exactly, from its start on, the
// operations on keys of the default keyspace, as a server of Redis has no other.
type hotKeySession struct {
	hotKeyOptions
	startedAt time.Time
	cpuBefore cpuTimes

	mu       sync.Mutex
	stopped  time.Duration // how long it was, 0 while it goes on
	cpuAfter cpuTimes
	// byCPU and byNet are nil if they are not asked for.
	byCPU, byNet  *heat.TopKeys
	all, selected hotKeyTotals
	sampled       hotKeyTotals // of the selected slots
}

// hotKeyOptions are what HOTKEYS START asks for.
type hotKeyOptions struct {
	cpu, net bool
	count    int
	duration time.Duration // 0 for no end
	sample   int
	slots    []int // sorted, nil for all
}

// cpuTimes is the processor time that the process has used.
type cpuTimes struct{ user, system time.Duration }

func readCPUTimes() (t cpuTimes) {
	t.user, t.system = cputime.Used()
	return t
}

type hotKeyTotals struct {
	busy  time.Duration
	bytes int
}

func (t *hotKeyTotals) add(busy time.Duration, bytes int) {
	t.busy, t.bytes = t.busy+busy, t.bytes+bytes
}

// record counts an operation, and reports whether the session goes on.
func (h *hotKeySession) record(k *node.Keyspace, key []byte, busy time.Duration, o load.Op, now time.Time) (active bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.elapsed(now); h.stopped != 0 {
		return false
	}
	bytes := o.BytesIn + o.BytesOut
	h.all.add(busy, bytes)
	if h.slots != nil {
		if _, ok := slices.BinarySearch(h.slots, int(k.SlotOf(key))); !ok {
			return true
		}
	}
	h.selected.add(busy, bytes)
	if h.sample > 1 && rand.IntN(h.sample) > 0 {
		return true
	}
	h.sampled.add(busy, bytes)
	a := heat.Access{Key: key, BytesIn: o.BytesIn, BytesOut: o.BytesOut, Service: max(busy, 1)}
	for _, t := range []*heat.TopKeys{h.byCPU, h.byNet} {
		if t != nil {
			t.Add(&a, float64(h.sample))
		}
	}
	return true
}

// elapsed returns how long the session was or is, and ends it if that is its whole time.
// REQUIRES: h.mu held.
func (h *hotKeySession) elapsed(now time.Time) time.Duration {
	if h.stopped != 0 {
		return h.stopped
	}
	d := max(now.Sub(h.startedAt), 1)
	if h.duration > 0 && d >= h.duration {
		h.stop(h.duration)
	}
	return d
}

// REQUIRES: h.mu held.
func (h *hotKeySession) stop(after time.Duration) {
	h.stopped, h.cpuAfter = after, readCPUTimes()
}

// isActive reports whether the session goes on.
func (h *hotKeySession) isActive(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.elapsed(now)
	return h.stopped == 0
}

// setHotKeySession replaces the session, nil for none.
func (s *Server) setHotKeySession(h *hotKeySession) {
	s.hotKeySession.Store(h)
	s.updateObserved()
}

func handleHotKeysStart(t *call) {
	now := time.Now()
	if h := t.s.hotKeySession.Load(); h != nil && h.isActive(now) {
		t.out.Fail(redis.Error("ERR hotkey tracking session already in progress"))
		return
	}
	o, err := t.s.parseHotKeyOptions(t.Args[2:])
	if err != nil {
		t.out.Fail(err)
		return
	}
	h := &hotKeySession{hotKeyOptions: o, startedAt: now, cpuBefore: readCPUTimes()}
	for _, m := range []struct {
		wanted bool
		by     heat.Measure
		to     **heat.TopKeys
	}{{o.cpu, heat.ByService, &h.byCPU}, {o.net, heat.ByBytes, &h.byNet}} {
		if m.wanted {
			if *m.to, err = heat.NewTopKeys(m.by, trackedHotKeys); err != nil {
				t.out.Fail(err)
				return
			}
		}
	}
	t.s.setHotKeySession(h)
	t.out.OK()
}

// parseHotKeyOptions reads the words behind HOTKEYS START.
func (s *Server) parseHotKeyOptions(args [][]byte) (o hotKeyOptions, err error) {
	o = hotKeyOptions{count: defaultHotKeyCount, sample: 1}
	if len(args) < 2 || !redis.IsKeyword(args[0], "METRICS") {
		return o, redis.Error("ERR METRICS parameter is required")
	}
	if args, err = o.parseMetrics(args[1:]); err != nil {
		return o, err
	}
	for len(args) > 0 {
		number := func(name string, least, most int64, text string) (int, error) {
			if len(args) < 2 {
				return 0, redis.ErrSyntax
			}
			n, ok := redis.ParseInteger(args[1])
			if !ok || n < least || n > most {
				return 0, redis.Error("ERR " + name + " " + text)
			}
			return int(n), nil
		}
		rest := 2
		switch {
		case redis.IsKeyword(args[0], "COUNT"):
			o.count, err = number("COUNT", 1, maxHotKeyCount, "must be between 1 and 64")
		case redis.IsKeyword(args[0], "DURATION"):
			var seconds int
			seconds, err = number("DURATION", 0, maxHotKeySeconds, "must be between 0 and 31536000 seconds")
			o.duration = time.Duration(seconds) * time.Second
		case redis.IsKeyword(args[0], "SAMPLE"):
			o.sample, err = number("SAMPLE", 1, 1<<20, "ratio must be positive, and at most 1048576")
		case redis.IsKeyword(args[0], "SLOTS"):
			rest, err = s.parseHotKeySlots(&o, args)
		default:
			err = redis.ErrSyntax
		}
		if err != nil {
			return o, err
		}
		args = args[rest:]
	}
	return o, nil
}

// parseMetrics reads how many metrics there are, and which. Words that are none are passed over: they may be metrics of
// a later version.
func (o *hotKeyOptions) parseMetrics(args [][]byte) (rest [][]byte, err error) {
	n, ok := redis.ParseInteger(args[0])
	if !ok || n < 1 || n > 2 {
		return nil, redis.Error("ERR METRICS count must be 1 or 2")
	}
	args = args[1:]
	if int(n) > len(args) {
		return nil, redis.Error("ERR METRICS count does not match number of metric types provided")
	}
	for _, word := range args[:n] {
		for _, m := range []struct {
			name string
			to   *bool
		}{{"CPU", &o.cpu}, {"NET", &o.net}} {
			if !redis.IsKeyword(word, m.name) {
				continue
			}
			if *m.to {
				return nil, redis.Error("ERR METRICS " + m.name + " is given twice")
			}
			*m.to = true
		}
	}
	if !o.cpu && !o.net {
		return nil, redis.Error("ERR METRICS no valid metrics passed: use CPU and NET")
	}
	return args[n:], nil
}

// parseHotKeySlots reads SLOTS, and returns how many words that are.
func (s *Server) parseHotKeySlots(o *hotKeyOptions, args [][]byte) (words int, err error) {
	switch {
	case !s.opts.Cluster:
		return 0, redis.Error("ERR SLOTS parameter cannot be used in non-cluster mode")
	case o.slots != nil:
		return 0, redis.Error("ERR SLOTS parameter already specified")
	case len(args) < 2:
		return 0, redis.ErrSyntax
	}
	n, ok := redis.ParseInteger(args[1])
	if !ok || n < 1 || n > hash.Slots {
		return 0, redis.Error("ERR SLOTS count must be between 1 and 16384")
	}
	if int(n) > len(args)-2 {
		return 0, redis.Error("ERR not enough slot numbers provided")
	}
	for _, word := range args[2 : 2+n] {
		slot, err := parseSlotNumber(word)
		if err != nil {
			return 0, err
		}
		if slices.Contains(o.slots, slot) {
			return 0, redis.Error("ERR duplicate slot number")
		}
		o.slots = append(o.slots, slot)
	}
	slices.Sort(o.slots)
	return 2 + int(n), nil
}

func handleHotKeysStop(t *call) {
	h, now := t.s.hotKeySession.Load(), time.Now()
	if h == nil || !h.isActive(now) {
		t.out.Fail(redis.Error("ERR no hotkey tracking session in progress"))
		return
	}
	h.mu.Lock()
	h.stop(h.elapsed(now))
	h.mu.Unlock()
	t.s.updateObserved()
	t.out.OK()
}

func handleHotKeysReset(t *call) {
	if h := t.s.hotKeySession.Load(); h != nil && h.isActive(time.Now()) {
		t.out.Fail(redis.Error("ERR hotkey tracking session in progress, stop tracking first"))
		return
	}
	t.s.setHotKeySession(nil)
	t.out.OK()
}

func handleHotKeysGet(t *call) {
	h := t.s.hotKeySession.Load()
	if h == nil {
		t.out.Null()
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.write(t.out, time.Now(), t.canSeeHotKey)
}

// canSeeHotKey reports whether the client may see a key. Of one that is too long to be known whole, nothing shows
// whether it is one that the client may read.
func (t *call) canSeeHotKey(key string) bool {
	return t.canRead([]byte(key)) && (len(key) < heat.MaxKeyBytes || t.c.account.User().IsUnlimited())
}

// write writes the reply to HOTKEYS GET: an array of one map. Keys that the client may not see are left out.
// REQUIRES: h.mu held.
func (h *hotKeySession) write(out *redis.Writer, now time.Time, canSee func(key string) bool) {
	top := func(all *heat.TopKeys) []heat.HotKey {
		seen := slices.DeleteFunc(all.Top(trackedHotKeys), func(k heat.HotKey) bool { return !canSee(k.Key) })
		return seen[:min(h.count, len(seen))]
	}
	type field struct {
		name  string
		write func()
	}
	number := func(name string, n int64) field { return field{name, func() { out.Int(n) }} }
	took, cpu, active := h.elapsed(now), h.cpuAfter, int64(0)
	if h.stopped == 0 {
		cpu, active = readCPUTimes(), 1
	}
	fields := []field{
		number("tracking-active", active), number("sample-ratio", int64(h.sample)), {"selected-slots", func() { h.writeSlots(out) }},
	}
	if h.slots != nil && h.sample > 1 {
		fields = append(fields, number("sampled-commands-selected-slots-us", h.sampled.busy.Microseconds()))
	}
	if h.slots != nil {
		fields = append(fields, number("all-commands-selected-slots-us", h.selected.busy.Microseconds()))
	}
	fields = append(fields, number("all-commands-all-slots-us", h.all.busy.Microseconds()))
	if h.slots != nil && h.sample > 1 {
		fields = append(fields, number("net-bytes-sampled-commands-selected-slots", int64(h.sampled.bytes)))
	}
	if h.slots != nil {
		fields = append(fields, number("net-bytes-all-commands-selected-slots", int64(h.selected.bytes)))
	}
	fields = append(fields, number("net-bytes-all-commands-all-slots", int64(h.all.bytes)),
		number("collection-start-time-unix-ms", h.startedAt.UnixMilli()), number("collection-duration-ms", took.Milliseconds()))
	if h.cpu {
		fields = append(fields, number("total-cpu-time-user-ms", (cpu.user-h.cpuBefore.user).Milliseconds()), number("total-cpu-time-sys-ms", (cpu.system-h.cpuBefore.system).Milliseconds()))
	}
	if h.net {
		fields = append(fields, number("total-net-bytes", int64(h.all.bytes)))
	}
	if h.cpu {
		fields = append(fields, field{"by-cpu-time-us", func() { writeHotKeys(out, top(h.byCPU), float64(time.Microsecond)) }})
	}
	if h.net {
		fields = append(fields, field{"by-net-bytes", func() { writeHotKeys(out, top(h.byNet), 1) }})
	}
	out.Array(1)
	out.Map(len(fields))
	for _, f := range fields {
		out.Text(f.name)
		f.write()
	}
}

// writeHotKeys writes keys with what they have, each count by a unit.
func writeHotKeys(out *redis.Writer, keys []heat.HotKey, unit float64) {
	out.Array(2 * len(keys))
	for _, k := range keys {
		out.Text(k.Key)
		out.Int(int64(k.Count / unit))
	}
}

// writeSlots writes the slots of the session as ranges: two numbers, or one for a slot alone.
func (h *hotKeySession) writeSlots(out *redis.Writer) {
	if h.slots == nil {
		out.Array(1)
		out.Array(2)
		out.Int(0)
		out.Int(hash.Slots - 1)
		return
	}
	var ranges [][]int
	for _, slot := range h.slots {
		if n := len(ranges); n > 0 && ranges[n-1][len(ranges[n-1])-1] == slot-1 {
			ranges[n-1] = []int{ranges[n-1][0], slot}
		} else {
			ranges = append(ranges, []int{slot})
		}
	}
	out.Array(len(ranges))
	for _, r := range ranges {
		out.Array(len(r))
		for _, slot := range r {
			out.Int(int64(slot))
		}
	}
}
