package cleave

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/shard/admission"
	"github.com/cleavekv/cleave/partition"
)

var testCapKey = admission.LimitKey{Source: admission.Cap, ID: 1}

// limitWrites admits so many writes a second to a key.
func limitWrites(t *testing.T, ks *Keyspace, name string, perSecond float64) {
	t.Helper()
	l := admission.WriteLimit{Span: ks.keyspace.KeySpan([]byte(name)), PerSecond: perSecond, Reason: "capped"}
	must(t, ks.db.node.WriteLimits().Set(testCapKey, l))
}

// Every way to write a key that may not be written waits until the context of its caller ends, is told why, and leaves
// nothing. It goes on when that is over.
func TestThrottle_ReadOnlyKey_WritersWaitForTheEndOfTheirContext(t *testing.T) {
	db := openSmall(t, 2)
	ks, indexed := rangeSpace(t, db, "rows"), rangeSpace(t, db, "indexed")
	mustIndex(t, db, IndexOptions{Name: "age", Keyspace: indexed, Columns: "age"})
	key, other := []byte("hot"), []byte("other")
	batch := func() *Batch {
		var b Batch
		b.Set(ks, other, []byte("1"))
		b.Set(ks, key, []byte("1"))
		return &b
	}
	for what, write := range map[string]func(context.Context) error{
		"Set":    func(ctx context.Context) error { return ks.Set(ctx, key, []byte("1")) },
		"Delete": func(ctx context.Context) error { _, err := ks.Delete(ctx, key); return err },
		"Write":  func(ctx context.Context) error { return db.Write(ctx, batch()) },
		"Update": func(ctx context.Context) error {
			return db.Update(ctx, func(tx *Txn) error { return errors.Join(tx.Set(ks, other, []byte("1")), tx.Set(ks, key, []byte("1"))) })
		},
		"HSet of an indexed row": func(ctx context.Context) error {
			_, err := indexed.HSet(ctx, key, newFields("age", "7")...)
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			in := ks
			if what == "HSet of an indexed row" {
				in = indexed
			}
			limitWrites(t, in, "hot", 0)
			limited, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			err := write(limited)
			var refused *ThrottledError
			if !errors.As(err, &refused) || !errors.Is(err, ErrThrottled) || refused.Reason != "capped" || refused.RetryAfter <= 0 || refused.Shard == 0 {
				t.Fatalf("told %v", err)
			}
			for _, name := range [][]byte{key, other} {
				if found, err := in.Exists(ctx, name); found || err != nil {
					t.Errorf("%s was written: %v", name, err)
				}
			}
			done := make(chan error)
			go func() { done <- write(ctx) }()
			db.node.WriteLimits().Remove(testCapKey)
			must(t, <-done)
			_, err = in.Delete(ctx, key)
			_, err2 := in.Delete(ctx, other)
			must(t, errors.Join(err, err2))
		})
	}
}

// While turns are few and limits change, what was acknowledged is there, and what was refused is not.
func TestThrottle_LimitsChange_LosesNoAcknowledgedWrite(t *testing.T) {
	db := openSmall(t, 2)
	ks := rangeSpace(t, db, "rows")
	limits := db.node.WriteLimits()
	var mu sync.Mutex
	sum, unknown, refused := int64(0), int64(0), 0
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for i := range 30 {
				limited, cancel := context.WithTimeout(ctx, time.Duration(1+i%7)*5*time.Millisecond)
				var err error
				if i%3 == 0 {
					err = db.Update(limited, func(tx *Txn) error { _, err := tx.Add(ks, []byte("n"), 1); return err })
				} else {
					_, err = ks.Add(limited, []byte("n"), 1)
				}
				cancel()
				mu.Lock()
				switch {
				case err == nil:
					sum++
				case errors.Is(err, ErrThrottled):
					refused++
				case errors.Is(err, ErrUnknown): // its context has ended when it was on its way
					unknown++
				case !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrConflict):
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	for i := range 20 {
		must(t, limits.Set(testCapKey, admission.WriteLimit{PerSecond: float64(100 + 400*(i%2)), Reason: "capped", Span: partition.Span{}}))
		time.Sleep(10 * time.Millisecond)
	}
	limits.Remove(testCapKey)
	writers.Wait()
	value, err := ks.Get(ctx, []byte("n"))
	must(t, err)
	if got, _ := strconv.ParseInt(string(value), 10, 64); got < sum || got > sum+unknown {
		t.Errorf("%d additions were acknowledged, of %d it is unknown, and the sum is %d", sum, unknown, got)
	}
	if refused == 0 {
		t.Error("none was refused: the test tests nothing")
	}
}

// The writers of one shard wait, and those of others do not, wherever the shard goes; the throttle ends by itself.
func TestThrottles_Set_LimitsOneShardForAWhile(t *testing.T) {
	db := openSmall(t, 2)
	ks := db.Default()
	shardOf := func(key string) ShardID {
		_, i, _ := db.node.Locate(ks.keyspace.AppendPosition(nil, []byte(key)))
		return db.node.Map().OwnerAt(i).Shard
	}
	hot, cool := "hot", ""
	for i := range 1000 {
		if cool = strconv.Itoa(i); shardOf(cool) != shardOf(hot) {
			break
		}
	}
	throttles := db.node.Throttles()
	must(t, throttles.Set(shardOf(hot), 0, "it is hot", time.Now().Add(100*time.Millisecond)))
	if all := throttles.List(); len(all) != 1 || all[0].Shard != shardOf(hot) || all[0].Reason != "it is hot" {
		t.Errorf("%+v", all)
	}
	limited, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	var refused *ThrottledError
	if err := ks.Set(limited, []byte(hot), nil); !errors.As(err, &refused) || refused.Shard != shardOf(hot) || refused.RetryAfter > 100*time.Millisecond {
		t.Errorf("told %v", err)
	}
	must(t, ks.Set(ctx, []byte(cool), nil))
	must(t, ks.Set(ctx, []byte(hot), nil)) // when the throttle has ended
	if all := throttles.List(); len(all) != 0 {
		t.Errorf("%+v", all)
	}
	if err := throttles.Set(12345, 1, "", time.Time{}); !errors.Is(toPublicError(err), ErrNoShard) {
		t.Errorf("told %v", err)
	}
	must(t, throttles.Set(shardOf(hot), 0, "it is hot", time.Time{}))
	done := make(chan error)
	go func() { done <- ks.Set(ctx, []byte(hot), nil) }()
	throttles.Clear(shardOf(hot))
	must(t, <-done)
}
