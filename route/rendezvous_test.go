package route

import (
	"testing"

	"github.com/cleavekv/cleave/hash"
)

func TestVectorsAgreeWithTheLoop(t *testing.T) {
	for _, n := range []int{1, 2, 8, 9, 17, 63, 64, 65, 1000, 1024, 10000} {
		r, err := NewRendezvous(benchNodes(n))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20000 {
			h := hash.Uint64(uint64(i))
			d := newDraw(h)
			a, b := bestGo(r.groups, d, n), r.Route(h)
			if int(r.ids[a]) != b {
				t.Fatal(n, i, a, b)
			}
			if i < 100 {
				if c := r.winner(d, nil); c != b {
					t.Fatal(n, i, b, c)
				}
				if c := r.ranking(nil, d, 1); c[0] != b {
					t.Fatal(n, i, b, c)
				}
			}
		}
	}
}
