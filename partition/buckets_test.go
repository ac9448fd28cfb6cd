package partition

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/hash"
)

// drawBuckets returns buckets, and over how many shards they were spread.
func drawBuckets(t *rapid.T) (b *Buckets, shards int) {
	n := rapid.OneOf(rapid.IntRange(1, 40), rapid.SampledFrom([]int{1000, 1024, 4096, MaxBuckets})).Draw(t, "buckets")
	shards = rapid.IntRange(1, min(n, 100)).Draw(t, "shards")
	b, err := NewBuckets(n, shards)
	if err != nil {
		t.Fatal(err)
	}
	return b, shards
}

func TestBuckets_CountsOfShardsDifferByOneAtFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, shards := drawBuckets(t)
		least, most, sum := b.Len(), 0, 0
		for s := range shards {
			n := len(slices.Collect(b.Owned(s)))
			least, most, sum = min(least, n), max(most, n), sum+n
		}
		if most-least > 1 || least == 0 || sum != b.Len() {
			t.Fatalf("%d buckets over %d shards: from %d to %d, %d in all", b.Len(), shards, least, most, sum)
		}
	})
}

func TestBuckets_AMoveOfOneMovesItsKeysOnly(t *testing.T) {
	keys := make([]hash.Stable, 2000)
	for i := range keys {
		keys[i] = hash.XXH3String(fmt.Sprint("key ", i))
	}
	rapid.Check(t, func(t *rapid.T) {
		b, shards := drawBuckets(t)
		for range rapid.IntRange(1, 5).Draw(t, "moves") {
			// Shard number `shards` has none at first.
			bucket, to := rapid.IntRange(0, b.Len()-1).Draw(t, "bucket"), rapid.IntRange(0, shards).Draw(t, "to")
			before := slices.Clone(b.shards)
			next, err := b.Move(bucket, to)
			if to == b.Shard(bucket) {
				if !errors.Is(err, ErrNoChange) {
					t.Fatalf("to where it is: %v", err)
				}
				continue
			}
			if err != nil || next.Version() != b.Version()+1 || !slices.Equal(before, b.shards) {
				t.Fatalf("move of %d to %d: %v, version %d after %d", bucket, to, err, next.Version(), b.Version())
			}
			for _, h := range keys {
				at := b.BucketOf(h)
				if at < 0 || at >= b.Len() || next.BucketOf(h) != at {
					t.Fatalf("%v is in bucket %d of %d, then in %d", h, at, b.Len(), next.BucketOf(h))
				}
				want := b.ShardOf(h)
				if at == bucket {
					want = to
				}
				if next.ShardOf(h) != want || !slices.Contains(slices.Collect(next.Owned(want)), at) {
					t.Fatalf("%v in bucket %d is with shard %d after the move of %d to %d, want %d", h, at, next.ShardOf(h), bucket, to, want)
				}
			}
			b = next
		}
		again, err := DecodeBuckets(b.Append([]byte("x"))[1:])
		if err != nil || again.version != b.version || !slices.Equal(again.shards, b.shards) {
			t.Fatalf("%+v is read as %+v, %v", b, again, err)
		}
	})
}

func TestBuckets_KeysAreSpreadEvenly(t *testing.T) {
	const buckets, keys = 64, 64_000
	b := must(NewBuckets(buckets, 8))
	var count [buckets]int
	for i := range keys {
		count[b.BucketOf(hash.XXH3String(fmt.Sprint(i)))]++
	}
	for bucket, n := range count {
		if n < keys/buckets*8/10 || n > keys/buckets*12/10 {
			t.Errorf("bucket %d has %d keys, want about %d", bucket, n, keys/buckets)
		}
	}
}

func TestBuckets_AreStable(t *testing.T) {
	// These are on disks, and where keys are: they never change.
	b := must(must(NewBuckets(1000, 3)).Move(500, 300))
	for key, want := range map[string]int{"": 175, "ada": 410, "user:42": 624, "\xff": 838} {
		if got := b.BucketOf(hash.XXH3String(key)); got != want {
			t.Errorf("%q is in bucket %d, want %d", key, got, want)
		}
	}
	if got, want := hex.EncodeToString(b.Append(nil)), "01020500ce0201a601ac020101a60102cd021bb3846f"; got != want {
		t.Errorf("they are written as %s, want %s", got, want)
	}
}

func TestBuckets_DamageIsRefused(t *testing.T) {
	good := must(must(NewBuckets(1000, 3)).Move(500, 300)).Append(nil)
	for i := range good {
		bad := slices.Clone(good)
		bad[i] ^= 0x81
		if _, err := DecodeBuckets(bad); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewerFormat) {
			t.Errorf("byte %d flipped: %v", i, err)
		}
		if _, err := DecodeBuckets(good[:i]); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut to %d bytes: %v", i, err)
		}
	}
	newer := slices.Clone(good)
	newer[0]++
	if _, err := DecodeBuckets(newer); !errors.Is(err, ErrNewerFormat) {
		t.Errorf("a newer format: %v", err)
	}
	for name, b := range map[string]*Buckets{"none": {version: 1}, "no version": {shards: []uint16{1}}} {
		if _, err := DecodeBuckets(b.Append(nil)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBuckets_MisuseIsRefused(t *testing.T) {
	for _, c := range [][2]int{{0, 1}, {-1, 1}, {MaxBuckets + 1, 1}, {8, 0}, {8, 9}} {
		if _, err := NewBuckets(c[0], c[1]); !errors.Is(err, ErrBuckets) {
			t.Errorf("%d buckets over %d shards: %v", c[0], c[1], err)
		}
	}
	b := must(NewBuckets(8, 2))
	for _, c := range [][2]int{{-1, 1}, {8, 1}, {0, -1}, {0, MaxBuckets}} {
		if _, err := b.Move(c[0], c[1]); !errors.Is(err, ErrBuckets) {
			t.Errorf("bucket %d to %d: %v", c[0], c[1], err)
		}
	}
}

func FuzzDecodeBuckets(f *testing.F) {
	f.Add(must(must(NewBuckets(1000, 3)).Move(500, 300)).Append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := DecodeBuckets(data)
		if err == nil && string(b.Append(nil)) != string(data) {
			t.Errorf("%x is read as %+v, which is written as %x", data, b, b.Append(nil))
		}
	})
}

func BenchmarkBuckets_ShardOf(b *testing.B) {
	buckets := must(NewBuckets(1024, 12))
	h, sum := hash.XXH3String("user:42"), 0
	for b.Loop() {
		sum += buckets.ShardOf(h)
	}
	_ = sum
}
