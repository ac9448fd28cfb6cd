package cleave

import (
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/txn"
)

// There is always one more transaction that has asked for a turn. Whoever writes the same
// has his own, after those who were there before him.
func TestAPlainWriteHasItsTurnAmongTransactions(t *testing.T) {
	const most = 100 // transactions may come before it; without a turn, all do
	writes := map[string]func(*DB, [][]byte) error{
		"one key": func(db *DB, keys [][]byte) error { return db.Default().Set(ctx, keys[0], nil) },
		"several groups": func(db *DB, keys [][]byte) error {
			var b Batch
			for _, key := range keys {
				b.Set(db.Default(), key, nil)
			}
			return db.Write(ctx, &b)
		},
		"a transaction that reads nothing": func(db *DB, keys [][]byte) error {
			return db.Update(ctx, func(tx *Txn) error { return tx.Set(db.Default(), keys[0], nil) })
		},
	}
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			db := small(t, 1)
			keys := [][]byte{keyOn(db, 0), []byte("a"), []byte("b"), []byte("c"), []byte("d")}
			var claims []txn.Claim
			for _, key := range keys {
				claims = append(claims, txn.Claim{Span: txn.KeySpan(db.Default().space.AppendPosition(nil, key)), Write: true})
			}
			first := db.node.PartOf(claims[0].Span.Start)
			for _, c := range claims {
				if p := db.node.PartOf(c.Span.Start); p.ID < first.ID {
					first = p
				}
			}
			type turn struct {
				release func()
				err     error
			}
			ask := func() <-chan turn {
				next := make(chan turn, 1)
				go func() {
					_, release, err := db.node.Hold(ctx, claims)
					next <- turn{release, err}
				}()
				until(t, "the next has asked", func() bool {
					reply, err := first.Group.Try(ctx, group.Request{Command: &txn.Unhold{}}) // of nobody
					must(t, err)
					return reply.Int > 1
				})
				return next
			}
			_, release, err := db.node.Hold(ctx, claims)
			must(t, err)
			written := make(chan error, 1)
			go func() { written <- write(db, keys) }()
			for range most {
				next := ask()
				release()
				now := <-next
				must(t, now.err)
				release = now.release
				select {
				case err := <-written:
					must(t, err)
					release()
					return
				case <-time.After(time.Millisecond):
				}
			}
			release()
			t.Errorf("%d transactions that came later came first", most)
			must(t, <-written)
		})
	}
}
