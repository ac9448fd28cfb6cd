package counter

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave"
)

// model is the dumb counter: a number, and the requests that it has seen.
type model struct {
	sum  map[string]*big.Int
	seen map[cleave.RequestID]bool
}

func (m *model) sumOf(name string) *big.Int {
	if m.sum[name] == nil {
		m.sum[name] = new(big.Int)
	}
	return m.sum[name]
}

func (m *model) add(name string, delta int64) { m.sumOf(name).Add(m.sumOf(name), big.NewInt(delta)) }

// Whatever is done by whom in which order, a counter is one number. Two Counters use the
// same ones, so that what each knows of the parts is often old.
func TestACounterIsOneNumber(t *testing.T) {
	db := openMemory(t, cleave.Options{Groups: 4, Stores: 2})
	all := testKeyspaces(t, db)
	rapid.Check(t, func(t *rapid.T) {
		ks := all[rapid.SampledFrom([]string{"hash", "few", "range"}).Draw(t, "keyspace")]
		var both []*Counters
		for range 2 {
			c, err := Open(db, ks, Options{Window: time.Hour, Watched: 1})
			must(t, err)
			defer c.Close()
			both = append(both, c)
		}
		m := &model{map[string]*big.Int{}, map[cleave.RequestID]bool{}}
		var ids []cleave.RequestID
		names := []string{"a", "b}"}
		for _, name := range names {
			_, err := both[0].Delete(ctx, name)
			must(t, err)
		}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			c := rapid.SampledFrom(both).Draw(t, "who")
			name := rapid.SampledFrom(names).Draw(t, "name")
			delta := rapid.Int64Range(-1000, 1000).Draw(t, "delta")
			switch rapid.SampledFrom([]string{"add", "add", "once", "once", "tx", "write", "sum", "fast", "resize", "resize", "reset", "delete"}).Draw(t, "op") {
			case "add":
				must(t, c.Add(ctx, name, delta))
				m.add(name, delta)
			case "once":
				var id cleave.RequestID
				if len(ids) > 0 && rapid.Bool().Draw(t, "again") {
					id = rapid.SampledFrom(ids).Draw(t, "id")
				} else {
					var err error
					id, err = c.NewRequestID(ctx, name)
					must(t, err)
					if rapid.Bool().Draw(t, "of the store") {
						id = db.NewRequestID()
					}
					ids = append(ids, id)
				}
				must(t, c.AddOnce(ctx, id, name, delta))
				// An id is of one request: that on another counter is another.
				if of := requestOn(id, name); !m.seen[of] {
					m.seen[of] = true
					m.add(name, delta)
				}
			case "tx":
				must(t, db.Update(ctx, func(tx *cleave.Txn) error {
					if err := c.AddTx(tx, name, delta); err != nil {
						return err
					}
					sum, err := c.SumTx(tx, name)
					if want := m.sumOf(name).Int64() + delta; err == nil && sum != want {
						t.Errorf("in a transaction the sum of %q is %d, want %d", name, sum, want)
					}
					return err
				}))
				m.add(name, delta)
			case "write":
				must(t, c.Write(ctx, name, delta, func(b *cleave.Batch) { b.Set(ks, []byte("row"), []byte("x")) }))
				m.add(name, delta)
			case "sum":
				wantSum(t, c, name, m.sumOf(name).Int64())
			case "fast":
				if r, err := c.Fast(ctx, name, 0); err != nil || r.Sum != m.sumOf(name).Int64() {
					t.Fatalf("the sum of %q is %+v, %v; want %v", name, r, err, m.sumOf(name))
				}
			case "resize":
				must(t, c.Resize(ctx, name, 1<<rapid.IntRange(0, 5).Draw(t, "parts")))
			case "reset":
				if sum, err := c.Reset(ctx, name); err != nil || sum != m.sumOf(name).Int64() {
					t.Fatalf("%q was %d, %v; want %v", name, sum, err, m.sumOf(name))
				}
				m.sum[name] = nil
			case "delete":
				_, err := c.Delete(ctx, name)
				must(t, err)
				m.sum[name] = nil
			}
		}
		for _, name := range names {
			wantSum(t, both[0], name, m.sumOf(name).Int64())
		}
	})
}

// requestOn tells requests on two counters with one id apart.
func requestOn(id cleave.RequestID, name string) cleave.RequestID {
	id[15] ^= name[0]
	return id
}
