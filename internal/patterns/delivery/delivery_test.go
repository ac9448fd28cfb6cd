package delivery

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestEveryPointHasOneBucketOfAnEpoch(t *testing.T) {
	for shards := 1; shards <= Points; shards++ {
		m := NewManifest(shards)
		at := 0
		for _, b := range m.OpenBuckets() {
			if b.FirstPoint() != at || b.EndPoint() <= b.FirstPoint() {
				t.Fatalf("bucket %+v has the points from %d to %d, want from %d", b, b.FirstPoint(), b.EndPoint(), at)
			}
			for p := b.FirstPoint(); p < b.EndPoint(); p++ {
				if m.BucketFor(p) != b {
					t.Fatalf("point %d of %+v is put to %+v", p, b, m.BucketFor(p))
				}
			}
			at = b.EndPoint()
		}
		if at != Points {
			t.Fatalf("%d shards end at %d", shards, at)
		}
	}
}

// Of one point at most one bucket is ready, the oldest that is left; and something is
// always ready.
func TestOfAPointTheOldestBucketIsReady(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewManifest(rapid.IntRange(1, 20).Draw(t, "shards"))
		for range rapid.IntRange(0, 8).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "resize") {
				m = m.WithShards(rapid.IntRange(1, 20).Draw(t, "shards"), 1)
			} else {
				m = m.WithoutBucket(rapid.SampledFrom(m.ReadyBuckets()).Draw(t, "bucket"))
			}
			m = m.WithoutClosedEpochs(rapid.SampledFrom([]int64{0, 2}).Draw(t, "before"))
			back, err := ParseManifest(m.Encode())
			if err != nil || string(back.Encode()) != string(m.Encode()) {
				t.Fatalf("%s is read as %s, %v", m.Encode(), back.Encode(), err)
			}
		}
		for p := range Points {
			var has []Bucket
			for _, b := range m.RemainingBuckets() {
				if b.FirstPoint() <= p && p < b.EndPoint() {
					has = append(has, b)
				}
			}
			for _, b := range m.ReadyBuckets() {
				if b.FirstPoint() <= p && p < b.EndPoint() && b != has[0] {
					t.Fatalf("point %d: %+v is ready, before %+v", p, b, has[0])
				}
			}
		}
		oldest := m.RemainingBuckets()[0]
		if !slices.Contains(m.ReadyBuckets(), oldest) {
			t.Fatalf("%+v is the oldest, and not ready", oldest)
		}
	})
}

func TestOfAKeyTheOldestIsNext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Selector{NowMS: 100, Limit: rapid.IntRange(1, 5).Draw(t, "most")}
		seen := map[string]uint64{}
		var want []uint64
		wake := int64(0)
		for seq := range uint64(rapid.IntRange(0, 12).Draw(t, "rows")) {
			r := MessageRef{seq, rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "key")}
			l := Lease{UntilMS: rapid.SampledFrom([]int64{0, 100, 101, 150}).Draw(t, "until")}
			_, later := seen[r.Key]
			if !later || r.Key == "" {
				seen[r.Key] = seq
				if l.UntilMS <= 100 {
					want = append(want, seq)
				} else if wake == 0 || l.UntilMS < wake {
					wake = l.UntilMS
				}
			}
			if !c.Offer(r, l) {
				break
			}
		}
		var got []uint64
		for _, r := range c.Selected {
			got = append(got, r.Seq)
		}
		if !slices.Equal(got, want) || len(got) > c.Limit || c.WakeMS != wake {
			t.Fatalf("picked %v and to wake at %d, want %v and %d", got, c.WakeMS, want, wake)
		}
	})
}

func TestALeaseIsMineUntilAnotherHasIt(t *testing.T) {
	var l Lease
	for n := uint64(1); n <= 3; n++ {
		next, dead := l.Deliver(10, 5, n, 3)
		if dead || next.Deliveries != n || next.UntilMS != 15 || !next.IsOwnedBy(n) || next.IsOwnedBy(n-1) || next.IsOwnedBy(0) {
			t.Fatalf("%+v, %v", next, dead)
		}
		l = next
	}
	if _, dead := l.Deliver(10, 5, 9, 3); !dead {
		t.Error("it was handed out three times, and again")
	}
}

func FuzzRows(f *testing.F) {
	f.Add(Tail{7, 9, 11, true}.Append(nil))
	f.Add(Lease{1, 2, 1 << 63}.Append(nil))
	f.Add(append(Header{1, 2}.Append(nil), "body"...))
	f.Add(NewManifest(3).WithShards(2, 5).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if x, err := ParseTail(b); err == nil && string(x.Append(nil)) != string(b) {
			t.Errorf("the tail %q is read as %+v", b, x)
		}
		if x, err := ParseLease(b); err == nil && len(b) > 0 && string(x.Append(nil)) != string(b) {
			t.Errorf("the lease %q is read as %+v", b, x)
		}
		if x, body, err := ParseHeader(b); err == nil && string(append(x.Append(nil), body...)) != string(b) {
			t.Errorf("the message %q is read as %+v", b, x)
		}
		if m, err := ParseManifest(b); err == nil && (len(m.RemainingBuckets()) == 0 || len(m.ReadyBuckets()) == 0) {
			t.Errorf("the manifest %q has nothing to read", b)
		}
	})
}
