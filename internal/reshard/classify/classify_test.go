package classify

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/partition"
)

const traceShards = 16

// op is an operation of a trace.
type op struct {
	shard       int
	key         string
	write, scan bool
}

// trace is generated operations with a known truth about shard 3.
type trace struct {
	name string
	want Class
	key  string // of HotKey; the prefix of HotPrefix
	// hot draws an operation on the hot shard, and share is its share of all operations.
	hot   func(r *rand.Rand, i int) op
	share float64
	// change says what else is measured of the hot shard.
	change   func(*ShardMeasures)
	machines []Machine
}

// play returns what was measured of a trace: two windows, of which the second is what counts.
func (tr *trace) play(seed uint64) []ShardMeasures {
	r := rand.New(rand.NewPCG(seed, 7))
	const ops = 25_000
	shards, newest := make([]ShardMeasures, traceShards), make([]string, traceShards)
	keys := make([]*heat.TopKeys, traceShards)
	counts := make([]struct{ reads, writes, scans, atEnd float64 }, traceShards)
	keyReads := map[string]float64{}
	for window := range 2 {
		before := append([]string(nil), newest...)
		for i := range keys {
			keys[i], _ = heat.NewTopKeys(heat.ByOps, 64)
		}
		clear(counts)
		clear(keyReads)
		for i := range ops {
			var o op
			if r.Float64() < tr.share {
				o = tr.hot(r, window*ops+i)
				o.shard = 3
			} else {
				o = op{shard: r.IntN(traceShards), key: fmt.Sprintf("user:%06d", r.IntN(100_000)), write: r.IntN(3) == 0}
				if o.shard == 3 && tr.share > 0 {
					continue // what else is asked of it belongs to the trace
				}
			}
			c := &counts[o.shard]
			keys[o.shard].Add(&heat.Access{Key: []byte(o.key), Write: o.write}, 1)
			switch {
			case o.write:
				c.writes++
				if o.key > before[o.shard] {
					c.atEnd++
				}
				newest[o.shard] = max(newest[o.shard], o.key)
			case o.scan:
				c.scans++
				fallthrough
			default:
				c.reads++
				keyReads[o.key]++
			}
		}
	}
	for i, c := range counts {
		s := &shards[i]
		*s = ShardMeasures{ID: partition.ShardID(i + 1), Group: partition.GroupID(1 + i/4), Bytes: 10e6, Reads: c.reads, Writes: c.writes, AgeWindows: 100,
			Work: (c.reads + c.writes) / ops * 1.5, P99: 0.0002, QueueWait: 0.0001}
		if c.reads > 0 {
			s.ScanShare = c.scans / c.reads
		}
		if c.writes > 0 {
			s.AtEnd = c.atEnd / c.writes
		}
		for _, k := range keys[i].Top(32) {
			share := KeyShare{Key: []byte(k.Key), Share: k.Count / keys[i].Total(), Error: k.Error / keys[i].Total()}
			share.Reads = min(1, keyReads[k.Key]/max(1, k.Count-k.Error))
			s.TopKeys = append(s.TopKeys, share)
		}
	}
	if tr.change != nil {
		tr.change(&shards[3])
	}
	return shards
}

// traces are cases of all classes, each with several strengths.
func traces() (all []trace) {
	add := func(tr trace) { all = append(all, tr) }
	for _, share := range []float64{0, 0.06, 0.08} {
		add(trace{name: fmt.Sprintf("even, %.2f", share), want: Even, share: share, hot: func(r *rand.Rand, _ int) op {
			return op{key: fmt.Sprintf("user:%06d", r.IntN(100_000)), write: r.IntN(2) == 0}
		}})
	}
	for _, of := range []float64{0.55, 0.7, 0.95} {
		for _, write := range []bool{false, true} {
			add(trace{name: fmt.Sprintf("one key of %.2f, writes %v", of, write), want: HotKey, key: "celebrity", share: 0.6, hot: func(r *rand.Rand, _ int) op {
				if r.Float64() < of {
					return op{key: "celebrity", write: write}
				}
				return op{key: fmt.Sprintf("user:%06d", r.IntN(1000)), write: write}
			}})
		}
	}
	for _, keys := range []int{20, 100, 1000, 50_000} {
		for _, share := range []float64{0.45, 0.7} {
			add(trace{name: fmt.Sprintf("%d warm keys, %.2f", keys, share), want: HotRange, share: share, hot: func(r *rand.Rand, _ int) op {
				return op{key: fmt.Sprintf("%x", uint32(r.IntN(keys))*2654435761), write: r.IntN(2) == 0}
			}})
		}
	}
	for _, reads := range []int{0, 1, 3} { // of ten
		for _, jitter := range []int{1, 500} {
			add(trace{name: fmt.Sprintf("time-ordered ids, %d reads of ten, jitter %d", reads, jitter), want: MovingEdge, share: 0.5, hot: func(r *rand.Rand, i int) op {
				if r.IntN(10) < reads {
					return op{key: fmt.Sprintf("event:%010d", max(0, i-r.IntN(5000)))}
				}
				return op{key: fmt.Sprintf("event:%010d", i+r.IntN(jitter)), write: true}
			}})
		}
	}
	for _, keys := range []int{12, 20, 30} {
		for _, share := range []float64{0.45, 0.7} {
			add(trace{name: fmt.Sprintf("%d read keys of one prefix, %.2f", keys, share), want: HotPrefix, key: "config:flags:", share: share, hot: func(r *rand.Rand, _ int) op {
				if r.IntN(10) < 8 {
					return op{key: fmt.Sprintf("config:flags:%c%02d", 'a'+rune(r.IntN(keys)), 1)}
				}
				return op{key: fmt.Sprintf("user:%06d", r.IntN(100_000)), write: true}
			}})
		}
	}
	for _, rows := range []int{50, 5000, 100_000} {
		add(trace{name: fmt.Sprintf("scans over %d rows", rows), want: HotPrefix, share: 0.5, hot: func(r *rand.Rand, i int) op {
			return op{key: fmt.Sprintf("%x", uint32(i%rows)*2654435761), scan: r.IntN(20) > 0}
		}})
	}
	for _, conflicts := range []float64{0.25, 0.6} {
		for _, cross := range []float64{0.35, 0.9} {
			add(trace{name: fmt.Sprintf("%.2f in cross-shard transactions, %.2f conflict", cross, conflicts), want: CrossShard, share: 0.3,
				change: func(s *ShardMeasures) { s.CrossShard, s.Conflicts = cross, conflicts },
				hot:    func(r *rand.Rand, _ int) op { return op{key: fmt.Sprint("account:", r.IntN(50)), write: true} }})
		}
	}
	for _, size := range []int64{120e6, 900e6} {
		add(trace{name: fmt.Sprintf("%d bytes", size), want: Oversized, change: func(s *ShardMeasures) { s.Bytes = size }})
	}
	for _, rate := range []float64{0, 8} {
		add(trace{name: fmt.Sprintf("%.0f operations", rate), want: Cold, change: func(s *ShardMeasures) { s.Reads, s.Writes, s.Work, s.TopKeys = rate, 0, 0, nil }})
	}
	add(trace{name: "a young shard without operations", want: Even, change: func(s *ShardMeasures) { s.Reads, s.Writes, s.Work, s.TopKeys, s.AgeWindows = 0, 0, 0, nil, 2 }})
	add(trace{name: "a long queue", want: HotRange, share: 0.15, change: func(s *ShardMeasures) { s.QueueWait = 0.05 }, hot: func(r *rand.Rand, _ int) op {
		return op{key: fmt.Sprintf("%x", r.Uint32()), write: true}
	}})
	for _, m := range [][]Machine{{{1, 0.95}, {2, 0.9 - 0.2}}, {{1, 0.75}, {2, 0.3}, {3, 0.35}}, {{1, 0.97}}} {
		add(trace{name: fmt.Sprint("machines ", m), want: Saturated, machines: m})
	}
	add(trace{name: "machines that are all busy alike", want: Even, machines: []Machine{{1, 0.8}, {2, 0.82}, {3, 0.79}}})
	return all
}

// TestClassify_TracesOfKnownTruth plays each trace with several seeds, and prints how many findings are right and how
// many were to be found.
func TestClassify_TracesOfKnownTruth(t *testing.T) {
	var found, right, wanted int
	names := map[Class]string{Even: "even", HotKey: "hot key", HotRange: "hot range", MovingEdge: "moving edge", HotPrefix: "hot prefix",
		CrossShard: "cross-shard", Oversized: "oversized", Cold: "cold", Saturated: "saturated"}
	all := traces()
	if len(all) < 40 {
		t.Fatalf("%d traces", len(all))
	}
	for _, tr := range all {
		for seed := range uint64(2) {
			shards := tr.play(seed)
			if tr.want != Even {
				wanted++
			}
			got := Classify(shards, tr.machines, Rules{MaxBytes: 100e6})
			found += len(got)
			ok := tr.want == Even && len(got) == 0 || len(got) == 1 && got[0].Class == tr.want
			if ok && tr.want != Even {
				f := got[0]
				if tr.want != Saturated && f.Shard != 4 || f.Evidence == "" ||
					tr.want == HotKey && string(f.Key) != tr.key || tr.want == HotPrefix && tr.key != "" && !bytes.HasPrefix(f.Key, []byte(tr.key)) {
					ok = false
				}
			}
			if ok && tr.want != Even {
				right++
			}
			if !ok {
				t.Errorf("%s, seed %d: want %s, found %d", tr.name, seed, names[tr.want], len(got))
				for _, f := range got {
					t.Errorf("    %s: %s %q, %s", f.Shard, names[f.Class], f.Key, f.Evidence)
				}
			}
		}
	}
	t.Logf("%d traces, 2 seeds each: precision %.3f (%d of %d findings), recall %.3f (%d of %d)", len(all), float64(right)/float64(max(found, 1)), right, found,
		float64(right)/float64(wanted), right, wanted)
}

// A key is named if it has most of the operations at the least that is sure, and not if it may have.
func TestClassify_KeyWhoseShareIsUnsure_IsNotNamed(t *testing.T) {
	for _, c := range []struct {
		share, err float64
		want       Class
	}{{0.6, 0.05, HotKey}, {0.6, 0.2, HotRange}} {
		shards := []ShardMeasures{{ID: 1, Group: 1, Writes: 10}, {ID: 2, Group: 1, Writes: 10}, {ID: 3, Group: 1, Writes: 1000, Work: 0.5, TopKeys: []KeyShare{{Key: []byte("k"), Share: c.share, Error: c.err}}}}
		if got := Classify(shards, nil, Rules{}); len(got) != 1 || got[0].Shard != 3 || got[0].Class != c.want {
			t.Errorf("%.2f, %.2f of which may be wrong: %+v, want %v", c.share, c.err, got, c.want)
		}
	}
}

// A shard that is asked for many times as much as others is not hot if it takes next to no time.
func TestClassify_LittleLoad_IsNotHot(t *testing.T) {
	for _, c := range []struct {
		work  float64
		found int
	}{{0.02, 0}, {0.5, 1}} {
		shards := []ShardMeasures{{ID: 1, Group: 1, Writes: 1}, {ID: 2, Group: 1, Writes: 1}, {ID: 3, Group: 1, Writes: 50, Work: c.work}}
		if got := Classify(shards, nil, Rules{}); len(got) != c.found {
			t.Errorf("with a work of %v: %+v", c.work, got)
		}
	}
}

// A finding says which share is read, of its key if it is about one, and writes figures as people read them.
func TestClassify_Finding_HasItsReadsAndPlainFigures(t *testing.T) {
	for _, c := range []struct {
		keys []KeyShare
		want float64
	}{{nil, 0.25}, {[]KeyShare{{Key: []byte("k"), Share: 0.9, Reads: 0.125}}, 0.125}} {
		shards := []ShardMeasures{{ID: 1, Writes: 10}, {ID: 2, Writes: 10}, {ID: 3, Reads: 1_000_000, Writes: 3_000_000, Work: 0.5, TopKeys: c.keys}}
		got := Classify(shards, nil, Rules{})
		if len(got) != 1 || got[0].Reads != c.want || !strings.HasPrefix(got[0].Evidence, "4,000,000 operations a second, 400,000 times the median") {
			t.Errorf("%+v, want %v of reads", got, c.want)
		}
	}
}

// A shard with a moving edge may have more bytes than others.
func TestClassify_LargeShardWithAnEdge_IsNotOversized(t *testing.T) {
	for _, c := range []struct {
		atEnd float64
		found int
	}{{0, 1}, {0.9, 0}} {
		if got := Classify([]ShardMeasures{{ID: 1, Bytes: 2e6, AtEnd: c.atEnd}}, nil, Rules{MaxBytes: 1e6}); len(got) != c.found {
			t.Errorf("with %v of its writes at its edge: %+v", c.atEnd, got)
		}
	}
}
