package load

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/cleavekv/cleave/partition"
)

var hashSpace = partition.Keyspace{ID: 1, Kind: partition.Hash}

// newMap returns a map of so many shards with about as many slots each.
func newMap(t testing.TB, shards int) *partition.Map {
	t.Helper()
	at, err := hashSpace.EvenSlots(shards)
	if err != nil {
		t.Fatal(err)
	}
	m, err := partition.NewMap([]partition.Group{{ID: 1}, {ID: 2}}, &hashSpace, at...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func applyEdit(t testing.TB, m *partition.Map, e partition.Edit) *partition.Map {
	t.Helper()
	next, err := m.Apply(e)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// slotIndex is the index of the shard of a slot.
func slotIndex(m *partition.Map, slot int) int {
	return m.Index(hashSpace.SlotSpan(uint16(slot)).Start)
}

// slotShard is the id of the shard of a slot.
func slotShard(m *partition.Map, slot int) partition.ShardID {
	return m.OwnerAt(slotIndex(m, slot)).Shard
}

func TestCell_SharesNoCacheLine(t *testing.T) {
	if size := unsafe.Sizeof(cell{}); size%64 != 0 {
		t.Fatalf("a cell has %d bytes, which is no multiple of a cache line", size)
	}
}

// A round counts once for each socket that it has read, of all recorders; one that has read none does not.
func TestMeter_Rounds_CountForEachRead(t *testing.T) {
	m := NewMeter()
	a, b := m.NewRecorder(), m.NewRecorder()
	a.RecordRound(3, time.Millisecond)
	a.RecordRound(0, time.Hour)
	b.RecordRound(1, 5*time.Millisecond)
	rounds := m.Read().Rounds
	if rounds.Count() != 4 || rounds.Mean() != 2*time.Millisecond {
		t.Errorf("%d reads of %v each", rounds.Count(), rounds.Mean())
	}
	if counts := m.ReadCounts().Rounds; counts.Count() != 0 {
		t.Errorf("without histograms there are %d", counts.Count())
	}
}

// truth counts what a test has asked for.
type truth struct{ reads, writes, in, out, errors atomic.Uint64 }

func (tr *truth) record(o Op) {
	if o.Write {
		tr.writes.Add(1)
	} else {
		tr.reads.Add(1)
	}
	tr.in.Add(uint64(o.BytesIn))
	tr.out.Add(uint64(o.BytesOut))
	if o.Failed {
		tr.errors.Add(1)
	}
}

func (tr *truth) check(t *testing.T, got ShardLoad) {
	t.Helper()
	want := OpCounts{Reads: tr.reads.Load(), Writes: tr.writes.Load(), BytesIn: tr.in.Load(), BytesOut: tr.out.Load(), Errors: tr.errors.Load(), Busy: got.Busy, InGroup: got.InGroup}
	if got.OpCounts != want {
		t.Fatalf("counted %+v, want %+v", got.OpCounts, want)
	}
}

func randomOp(r *rand.Rand) Op {
	return Op{Write: r.IntN(3) == 0, Failed: r.IntN(10) == 0, BytesIn: r.IntN(100), BytesOut: r.IntN(1000)}
}

// While the map changes, more often than counts of shards that are gone are kept apart, recorders and goroutines without
// one lose no count.
func TestMeter_MapChangesUnderLoad_LosesNothing(t *testing.T) {
	meter, tr := NewMeter(), new(truth)
	var published partition.Published
	published.Offer(newMap(t, 16))
	var stop atomic.Bool
	var counting sync.WaitGroup
	for worker := range 4 {
		counting.Go(func() {
			r, b := rand.New(rand.NewPCG(1, uint64(worker))), meter.NewRecorder()
			for i := 0; !stop.Load(); i++ {
				m, o := published.Load(), randomOp(r)
				s := b.At(m, slotIndex(m, r.IntN(16384)))
				if i%3 == 0 {
					b.SetTimes(1, 1, 1)
					b.SetTimes(0, 0, 0)
					b.Flush() // what was located before stays good
				}
				s.Record(o, 0)
				tr.record(o)
			}
			b.SetTimes(0, 0, 0)
			b.Flush()
		})
		counting.Go(func() {
			r := rand.New(rand.NewPCG(2, uint64(worker)))
			for !stop.Load() {
				m, o := published.Load(), randomOp(r)
				i := slotIndex(m, r.IntN(16384))
				if r.IntN(2) == 0 {
					meter.Begin(m, i).End(o)
				} else {
					meter.Record(m, i, o, time.Microsecond, time.Microsecond, 0)
				}
				tr.record(o)
			}
		})
	}
	r := rand.New(rand.NewPCG(3, 0))
	for range 2 * maxGoneShards {
		m := published.Load()
		slot := 1 + r.IntN(1000) // the first shards begin at slots 0 and 1024
		left := slotShard(m, 0)
		split := applyEdit(t, m, partition.Split{Shard: left, In: &hashSpace, At: []partition.Position{hashSpace.SlotSpan(uint16(slot)).Start}})
		published.Offer(split)
		published.Offer(applyEdit(t, split, partition.Merge{Left: left, Right: slotShard(split, slot)}))
	}
	stop.Store(true)
	counting.Wait()
	loads := meter.Read()
	total := loads.Total()
	tr.check(t, total)
	if got := len(loads.byID); got > 16+3*maxGoneShards {
		t.Errorf("the counts of %d shards are kept apart", got)
	}
}

// The counts of shards that were gone long ago are part of the total, and take no memory of their own.
func TestMeter_ManyShardsGone_AddsUpTheirCounts(t *testing.T) {
	meter, m := NewMeter(), newMap(t, 4)
	b, left := meter.NewRecorder(), slotShard(m, 0)
	const rounds = 2 * maxGoneShards
	for range rounds {
		split := applyEdit(t, m, partition.Split{Shard: left, In: &hashSpace, At: []partition.Position{hashSpace.SlotSpan(100).Start}})
		right := slotShard(split, 100)
		b.At(split, slotIndex(split, 100)).Record(Op{BytesIn: 3}, 0)
		b.SetTimes(1, 1, 1)
		b.Flush()
		m = applyEdit(t, split, partition.Merge{Left: left, Right: right})
	}
	loads := meter.Read()
	total := loads.Total()
	if total.Reads != rounds || total.BytesIn != 3*rounds || total.Service.Count() != rounds {
		t.Errorf("%d reads of %d bytes and %d times, want %d", total.Reads, total.BytesIn, total.Service.Count(), rounds)
	}
	if n := len(loads.byID); n > maxGoneShards+m.Len()+1 || loads.Gone.Reads == 0 {
		t.Errorf("the counts of %d shards are kept apart, and those of %d reads together", n, loads.Gone.Reads)
	}
}

func TestMeter_SplitShard_KeepsItsCountsWithTheFirstPiece(t *testing.T) {
	meter, m := NewMeter(), newMap(t, 4)
	b := meter.NewRecorder()
	b.At(m, slotIndex(m, 100)).Record(Op{BytesIn: 3}, 0)
	parent := slotShard(m, 100)
	split := applyEdit(t, m, partition.Split{Shard: parent, In: &hashSpace, At: []partition.Position{hashSpace.SlotSpan(50).Start}})
	b.At(split, slotIndex(split, 10)).Record(Op{BytesIn: 4}, 0)
	b.At(split, slotIndex(split, 100)).Record(Op{BytesIn: 5}, 0)
	b.SetTimes(0, 0, 0)
	b.Flush()
	loads := meter.Read()
	if first := loads.Of(parent); first.Reads != 2 || first.BytesIn != 7 {
		t.Errorf("the first piece has %+v", first.OpCounts)
	}
	if other := loads.Of(slotShard(split, 100)); other.Reads != 1 || other.BytesIn != 5 {
		t.Errorf("the new piece has %+v", other.OpCounts)
	}
	merged := applyEdit(t, split, partition.Merge{Left: parent, Right: slotShard(split, 100)})
	b.At(merged, slotIndex(merged, 100)).Record(Op{Write: true}, 0)
	b.SetTimes(0, 0, 0)
	b.Flush()
	loads = meter.Read()
	if got := loads.Of(parent); got.Reads != 2 || got.Writes != 1 {
		t.Errorf("after the merge it has %+v", got.OpCounts)
	}
	if total := loads.Total(); total.Ops() != 4 {
		t.Errorf("%d operations in all, want 4", total.Ops())
	}
}

func TestRecorder_SetTimes_GivesEachOperationATime(t *testing.T) {
	meter, m := NewMeter(), newMap(t, 2)
	b := meter.NewRecorder()
	s := b.At(m, slotIndex(m, 1))
	for range 5 {
		s.Record(Op{}, 0)
	}
	b.SetTimes(10*time.Microsecond, 2*time.Microsecond, 0)
	s.Record(Op{Write: true}, 3*time.Millisecond)
	b.SetTimes(10*time.Microsecond, time.Millisecond, time.Hour)
	b.SetTimes(time.Hour, time.Hour, time.Hour) // nothing is left that has taken so long
	b.SetTimes(0, 0, 0)
	b.Flush()
	got := meter.Read().Of(slotShard(m, 1))
	if got.Busy != 20*time.Microsecond || got.Service.SumNS != uint64(time.Millisecond+10*time.Microsecond) || got.Wait.SumNS != uint64(3*time.Millisecond) {
		t.Errorf("busy %v, service %d ns, wait %d ns", got.Busy, got.Service.SumNS, got.Wait.SumNS)
	}
	if s, w := got.Service.Count(), got.Wait.Count(); s != 6 || w != 6 {
		t.Errorf("%d times and %d waits of 6 operations", s, w)
	}
	if p50, p100 := got.Service.Quantile(0.5), got.Service.Quantile(1); p50 < 2*time.Microsecond || p50 > 4*time.Microsecond || p100 < time.Millisecond || p100 > 2*time.Millisecond {
		t.Errorf("half take up to %v, all up to %v", p50, p100)
	}
}

func TestBucketOf_EveryTimeHasABucketThatCoversIt(t *testing.T) {
	for d := time.Duration(-1); d < 20*time.Second; d = d*5/4 + 1 {
		i := bucketOf(d)
		if i < 0 || i >= buckets {
			t.Fatalf("%v is in bucket %d", d, i)
		}
		if i < buckets-1 && d >= 1<<(firstBucket+i) || i > 0 && d < 1<<(firstBucket+i-1) {
			t.Fatalf("%v is in bucket %d", d, i)
		}
	}
}

func BenchmarkRecorder(b *testing.B) {
	meter, m := NewMeter(), newMap(b, 16)
	recorder := meter.NewRecorder()
	i := 0
	for b.Loop() {
		recorder.At(m, i&15).RecordRead(30, 70)
		if i++; i%1024 == 0 {
			recorder.SetTimes(time.Microsecond, time.Microsecond, 0)
			recorder.Flush()
		}
	}
}

func BenchmarkMeter(b *testing.B) {
	for _, name := range []string{"one", "parallel"} {
		b.Run("goroutines="+name, func(b *testing.B) {
			meter, m := NewMeter(), newMap(b, 16)
			if name == "one" {
				i := 0
				for b.Loop() {
					meter.Begin(m, i&15).End(Op{BytesOut: 70})
					i++
				}
				return
			}
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					meter.Begin(m, i&15).End(Op{BytesOut: 70})
				}
			})
		})
	}
}
