package api

import (
	"context"
	"net/url"
	"strconv"
	"time"
)

// The measures that keys are compared by, for ?by= of PathHotKeys.
const (
	ByOps       = "ops"
	ByBytes     = "bytes"
	ByTime      = "time"
	ByConflicts = "conflicts"
)

// HotKeys are the keys that are asked for most. They are known by a sample, so all figures are estimates.
type HotKeys struct {
	By string `json:"by"`
	// WindowSeconds is the time that counts are of: what is older weighs less and less.
	WindowSeconds float64 `json:"window_seconds"`
	// Total is the count of all keys together.
	Total float64 `json:"total"`
	// Unit is what is counted: operations, bytes, seconds or conflicts.
	Unit string `json:"unit"`
	// Spread is how evenly operations fall on buckets of keys: 1 is even, 0 is one bucket. TopBucketShare is the part of
	// the bucket that has most. Both are of all keyspaces.
	Spread         float64  `json:"spread"`
	TopBucketShare float64  `json:"top_bucket_share"`
	Keys           []HotKey `json:"keys"`
}

// HotKey is a key with what is asked of it.
type HotKey struct {
	Keyspace string `json:"keyspace"`
	Key      Key    `json:"key"`
	// Truncated reports whether the key is longer than what is known of it.
	Truncated bool   `json:"truncated,omitempty"`
	Slot      *int   `json:"slot,omitempty"`
	Shard     uint64 `json:"shard"`
	Group     uint64 `json:"group"`
	// Count is by the measure. It is too high by at most Error, but for sampling, of which Deviation is the standard
	// deviation.
	Count     float64 `json:"count"`
	Error     float64 `json:"error"`
	Deviation float64 `json:"deviation"`
	// PerSecond is the count of a second.
	PerSecond float64 `json:"per_second"`
	// ShareOfAll and ShareOfShard are its parts of what is asked. That of the shard is known for operations and bytes alone.
	ShareOfAll      float64 `json:"share_of_all"`
	ShareOfShard    float64 `json:"share_of_shard,omitempty"`
	ReadsPerSecond  float64 `json:"reads_per_second"`
	WritesPerSecond float64 `json:"writes_per_second"`
	BytesPerSecond  float64 `json:"bytes_per_second"`
	// MeanSeconds and P99Seconds are the time from the begin of execution to the reply; 0 is not known.
	MeanSeconds float64 `json:"mean_seconds"`
	P99Seconds  float64 `json:"p99_seconds"`
	// Commands, Clients and Addresses are what was sent and what sent it, the most frequent first, at most four of each.
	// Clients have the name that connections of a program share, and the host; Addresses are of single connections.
	Commands  []NameShare `json:"commands"`
	Clients   []NameShare `json:"clients"`
	Addresses []NameShare `json:"addresses"`
}

// NameShare is a name with its part of the operations of a key, which is at least that.
type NameShare struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"`
}

// The metrics of heat maps.
const (
	MetricOps       = "ops"
	MetricReads     = "reads"
	MetricWrites    = "writes"
	MetricBytesIn   = "bytes_in"
	MetricBytesOut  = "bytes_out"
	MetricConflicts = "conflicts"
	MetricP99       = "p99"
)

// HeatMap is what was asked by time and key range. The map of a server begins when it starts.
type HeatMap struct {
	Metric string `json:"metric"`
	// Unit is what cells are: operations, bytes or conflicts in a second, or seconds.
	Unit string `json:"unit"`
	// Columns are the begins of columns, each StepSeconds wide.
	Columns     []time.Time `json:"columns"`
	StepSeconds float64     `json:"step_seconds"`
	// Rows are ranges of keys in order; rows follow the load, so that a hot key has one of its own.
	Rows []HeatRow `json:"rows"`
	// Cells are the values by row and column; null is not known. There are none if levels are asked for.
	Cells [][]*float64 `json:"cells"`
	// Levels are the same in a byte each, row by row, in base64: 0 is not known, and n is (2^((n-1)/8) - 1) times LevelUnit.
	Levels    string  `json:"levels,omitempty"`
	LevelUnit float64 `json:"level_unit,omitempty"`
	// Patterns are the shapes in what is shown that have a reason: none of p99.
	Patterns []HeatPattern `json:"patterns"`
	// Bytes is how much memory the map takes.
	Bytes int `json:"bytes"`
	// Events are splits, merges, moves and throttles of keys of the rows during the columns, the oldest first.
	Events []HeatEvent `json:"events"`
}

// HeatEvent is an event with the rows of a heat map that it is about.
type HeatEvent struct {
	Event Event `json:"event"`
	// FirstRow and LastRow are indexes of Rows, both included.
	FirstRow int `json:"first_row"`
	LastRow  int `json:"last_row"`
}

// HeatRow is the range of keys from StartKey on to the next row.
type HeatRow struct {
	// Keyspace is empty for positions that no keyspace has.
	Keyspace string `json:"keyspace"`
	// Slot is that of the first key in a hash keyspace. Its keys are in the order of slots, then of their bytes.
	Slot *int `json:"slot,omitempty"`
	// StartKey is none at the begin of the keyspace, or of the slot.
	StartKey *Key `json:"start_key,omitempty"`
	// Single reports whether the row is that key alone, and After whether it begins right behind that key.
	Single bool `json:"single,omitempty"`
	After  bool `json:"after,omitempty"`
	// At is where the row begins, for ?start_at= and ?end_at=: in the same order as rows, and good in any keyspace.
	At string `json:"at"`
	// Shard has the first key of the row now, and Group that shard. Shards is of how many the row has keys.
	Shard  uint64 `json:"shard"`
	Group  uint64 `json:"group"`
	Shards int    `json:"shards"`
}

// The kinds of patterns.
const (
	PatternDiagonal   = "diagonal"
	PatternHorizontal = "horizontal"
	PatternVertical   = "vertical"
)

// HeatPattern is a shape in a heat map: a diagonal is a hot place that moves, a horizontal line a hot key or a few
// neighbours, a vertical line a burst on most keys.
type HeatPattern struct {
	Kind string `json:"kind"`
	// The box, by number of rows and columns, both ends included.
	FirstRow    int `json:"first_row"`
	LastRow     int `json:"last_row"`
	FirstColumn int `json:"first_column"`
	LastColumn  int `json:"last_column"`
	// Strength is the share of what is asked meanwhile; of a burst, how many times as much as usual is asked.
	Strength float64 `json:"strength"`
	// Rate is the mean of a second.
	Rate float64 `json:"rate"`
	// Keyspace and Shard are where it is at its end, Key the key of a line that is one alone.
	Keyspace string `json:"keyspace,omitempty"`
	Shard    uint64 `json:"shard,omitempty"`
	Key      *Key   `json:"key,omitempty"`
	// Text says what is seen, and Remedy what helps.
	Text   string `json:"text"`
	Remedy string `json:"remedy"`
}

// HeatFilter is the part of a heat map that is wanted. The zero value is all of it.
type HeatFilter struct {
	Metric, Keyspace string
	From, To         time.Time
	Start, End       *Key
	// StartAt and EndAt are places of rows: see HeatRow.At.
	StartAt, EndAt string
	Rows, Columns  int
}

func (f *HeatFilter) query() url.Values {
	q := url.Values{}
	for name, text := range map[string]string{QueryMetric: f.Metric, QueryKeyspace: f.Keyspace, QueryStartAt: f.StartAt, QueryEndAt: f.EndAt} {
		if text != "" {
			q.Set(name, text)
		}
	}
	for name, t := range map[string]time.Time{QueryFrom: f.From, QueryTo: f.To} {
		if !t.IsZero() {
			q.Set(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	for name, k := range map[string]*Key{QueryStart: f.Start, QueryEnd: f.End} {
		if k != nil {
			q.Set(name, k.String())
		}
	}
	for name, n := range map[string]int{QueryRows: f.Rows, QueryColumns: f.Columns} {
		if n != 0 {
			q.Set(name, strconv.Itoa(n))
		}
	}
	return q
}

// HotKeyFilter says which hot keys are wanted.
type HotKeyFilter struct {
	By, Keyspace string
	Shard        uint64
	N            int
}

// HotKeys returns the keys that are asked for most.
func (c *Client) HotKeys(ctx context.Context, f HotKeyFilter) (h HotKeys, err error) {
	q := url.Values{}
	if f.By != "" {
		q.Set(QueryBy, f.By)
	}
	if f.Keyspace != "" {
		q.Set(QueryKeyspace, f.Keyspace)
	}
	if f.Shard != 0 {
		q.Set(QueryShard, formatID(f.Shard))
	}
	if f.N != 0 {
		q.Set(QueryN, strconv.Itoa(f.N))
	}
	return h, c.Get(ctx, PathHotKeys, q, &h)
}

// HeatMap returns a part of the heat map.
func (c *Client) HeatMap(ctx context.Context, f HeatFilter) (m HeatMap, err error) {
	return m, c.Get(ctx, PathHeatMap, f.query(), &m)
}

// Traffic are operations of a sample, in the order in which they were executed: one of Every, each with the same chance.
// They are kept while a reader asks for them: nothing of what was before its first request, and nothing any more ten
// seconds after the last.
type Traffic struct {
	Every int `json:"every"`
	// Next is where to go on, for ?after=.
	Next string `json:"next"`
	// Lost is how many came and went since the last request: a reader that asks four times a second loses none.
	Lost uint64 `json:"lost"`
	// TooLong counts operations on keys of more than about 500 bytes, which are not shown, since the first request.
	TooLong    uint64      `json:"too_long"`
	Operations []Operation `json:"operations"`
}

// Operation is what a request does with one key.
type Operation struct {
	Keyspace string `json:"keyspace"`
	Key      Key    `json:"key"`
	Write    bool   `json:"write"`
	Command  string `json:"command"`
	// Bytes are those of the request and of the reply.
	Bytes int `json:"bytes"`
}

// Traffic returns the operations of a keyspace since a place, which is empty for the first request. The keyspace "" is
// all of them.
func (c *Client) Traffic(ctx context.Context, keyspace, after string) (t Traffic, err error) {
	q := url.Values{}
	if keyspace != "" {
		q.Set(QueryKeyspace, keyspace)
	}
	if after != "" {
		q.Set(QueryAfter, after)
	}
	return t, c.Get(ctx, PathTraffic, q, &t)
}
