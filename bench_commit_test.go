package cleave

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/node"
)

// BenchmarkCommit is a transaction of two keys, by how far they are apart, until
// nothing is left of it.
func BenchmarkCommit(b *testing.B) {
	for _, d := range []Durability{Always, EverySec} {
		db, err := Open(b.TempDir(), Options{Stores: 2, Groups: 4, Durability: d})
		if err != nil {
			b.Fatal(err)
		}
		ks := db.Default()
		keys := map[*node.Part][][]byte{}
		var parts []*node.Part
		for i := range 40000 {
			key := fmt.Appendf(nil, "%08d", i)
			p := db.node.PartOf(ks.space.AppendPosition(nil, key))
			if keys[p] == nil {
				parts = append(parts, p)
			}
			keys[p] = append(keys[p], key)
		}
		pair := func(how string) (x, y []byte) {
			p := parts[rand.N(len(parts))]
			q := p
			for how != "one-group" {
				q = parts[rand.N(len(parts))]
				if q != p && (q.Host == p.Host) == (how == "one-store") {
					break
				}
			}
			return keys[p][rand.N(len(keys[p]))], keys[q][rand.N(len(keys[q]))]
		}
		for _, clients := range []int{1, 64} {
			for _, how := range []string{"one-group", "one-store", "two-stores"} {
				b.Run(fmt.Sprintf("%v-x%d/%s", d, clients, how), func(b *testing.B) {
					var all sync.WaitGroup
					for c := range clients {
						n := b.N / clients
						if c < b.N%clients {
							n++
						}
						all.Go(func() {
							value := make([]byte, 100)
							for range n {
								x, y := pair(how)
								if err := db.Update(ctx, func(tx *Txn) error {
									for _, key := range [][]byte{x, y} {
										if _, err := tx.Get(ks, key); err != nil && !errors.Is(err, ErrNotFound) {
											return err
										}
										if err := tx.Set(ks, key, value); err != nil {
											return err
										}
									}
									return nil
								}); err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
					all.Wait()
					for db.Metrics().Transactions.Open > 0 {
						time.Sleep(20 * time.Microsecond)
					}
				})
			}
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
