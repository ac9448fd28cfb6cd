package stats

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/partition"
)

// Slowlog is the newest of the requests that took long.
//
// The time of a request that is executed with others is that of all of them, from when
// they are handed to a group until they are as durable as they have to be: it is what the
// client has waited for. Of such a batch a few requests are noted, and so of those of a client
// that has waited for rows which were not in memory.
type Slowlog struct {
	mu      sync.Mutex
	nextID  int64
	entries []SlowlogEntry // the newest first
	// threshold is from how many nanoseconds on a request is noted, negative for never, and most
	// how many are kept.
	threshold atomic.Int64
	maxLen    int
}

// SlowlogEntry is a request that took long.
type SlowlogEntry struct {
	ID         int64
	Time       time.Time
	Took       time.Duration
	Args       []string
	From, Name string
	// What operators get, without the values.
	command  string
	keys     []api.Key
	argCount int
	location Location
}

// Location is where a request was executed; zero if that was not one place.
type Location struct {
	Shard partition.ShardID
	Group partition.GroupID
}

// String is the spot as the last argument of an entry.
func (s Location) String() string { return fmt.Sprintf("(%v, %v)", s.Shard, s.Group) }

const (
	// maxSlowlogArgs and maxSlowlogArgBytes are how much of a request is noted.
	maxSlowlogArgs     = 32
	maxSlowlogArgBytes = 128
	// MaxSlowlogPerBatch is how many requests of a batch are.
	MaxSlowlogPerBatch = 8
	// maxSlowlogKeys is how many of its keys are.
	maxSlowlogKeys = 8
)

// NewSlowlog returns a log with the limits that Redis has at first.
func NewSlowlog() *Slowlog {
	l := new(Slowlog)
	l.SetLimits(10*time.Millisecond, 128)
	return l
}

// IsSlow reports whether something that took so long is noted.
func (l *Slowlog) IsSlow(took time.Duration) bool {
	least := l.threshold.Load()
	return least >= 0 && int64(took) >= least
}

// Record notes a request with its arguments, and where it was executed.
func (l *Slowlog) Record(e SlowlogEntry, args [][]byte) {
	for i, a := range args {
		if i == maxSlowlogArgs-1 && len(args) > maxSlowlogArgs {
			e.Args = append(e.Args, fmt.Sprintf("... (%d more arguments)", len(args)-i))
			break
		}
		text := string(a[:min(len(a), maxSlowlogArgBytes)])
		if len(a) > maxSlowlogArgBytes {
			text += fmt.Sprintf("... (%d more bytes)", len(a)-maxSlowlogArgBytes)
		}
		e.Args = append(e.Args, text)
	}
	if e.location != (Location{}) {
		e.Args = append(e.Args, e.location.String())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.ID = l.nextID
	l.nextID++
	l.entries = slices.Insert(l.entries, 0, e)
	l.entries = l.entries[:min(len(l.entries), l.maxLen)]
}

// NewSlowlogEntry is what there is to report about a request without its values.
func NewSlowlogEntry(args [][]byte, now time.Time, took time.Duration, from, name string, at Location) SlowlogEntry {
	e := SlowlogEntry{Time: now, Took: took, From: from, Name: name, argCount: len(args), location: at}
	spec, err := redis.LookupRequest(args)
	if err != nil {
		return e // a word of the client's own: it may be anything
	}
	e.command = spec.Name
	keys, _ := spec.KeyIndexes(args) // it was executed
	for _, i := range keys[:min(len(keys), maxSlowlogKeys)] {
		e.keys = append(e.keys, slices.Clone(args[i][:min(len(args[i]), maxSlowlogArgBytes)]))
	}
	return e
}

// Len is how many requests are kept.
func (l *Slowlog) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// Reset forgets all requests.
func (l *Slowlog) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
}

// SetLimits changes the settings.
func (l *Slowlog) SetLimits(least time.Duration, most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if most == 0 {
		least = -1
	}
	l.threshold.Store(int64(least))
	l.maxLen = most
	l.entries = l.entries[:min(len(l.entries), most)]
}

// ListNewest returns so many of the newest requests, all if n is negative.
func (l *Slowlog) ListNewest(n int) []SlowlogEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < 0 {
		n = len(l.entries)
	}
	return slices.Clone(l.entries[:min(n, len(l.entries))])
}

// ToAPI returns the entry as operators see it.
func (e *SlowlogEntry) ToAPI() api.Slow {
	keys := e.keys
	if keys == nil {
		keys = []api.Key{}
	}
	return api.Slow{
		ID: e.ID, Time: e.Time, Seconds: e.Took.Seconds(), Command: e.command, Keys: keys, Arguments: e.argCount,
		Shard: uint64(e.location.Shard), Group: uint64(e.location.Group), Client: e.From, Name: e.Name,
	}
}
