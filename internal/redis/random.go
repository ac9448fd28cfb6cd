package redis

import (
	"math"
	"math/rand/v2"

	"github.com/cleavekv/cleave/internal/command"
)

func init() {
	register(&Spec{Name: "hrandfield", Arity: -2, Flags: ReadOnly, ACL: HashType, Keys: Keys{1, 1, 1}, run: runHRandField,
		Doc: Doc{"hash", "6.2.0", "Returns fields of a hash by chance.", "O(N) for a hash of N fields", ""}})
}

// runHRandField answers with one field, so many different ones, or so many that may be
// the same if the number is negative.
func runHRandField(u Unit, r *Request, w *Writer) {
	p := u.At(r.Args[1])
	many, values := len(r.Args) > 2, len(r.Args) == 4
	n := int64(1)
	if many {
		var ok bool
		if n, ok = integer(r.Args[2]); !ok {
			w.Fail(errNotInteger)
			return
		}
		if len(r.Args) > 4 || values && !is(r.Args[3], "WITHVALUES") {
			w.Fail(ErrSyntax)
			return
		}
		if n < -math.MaxInt64/2 || n > math.MaxInt64/2 {
			w.Fail(Error("ERR value is out of range"))
			return
		}
	}
	reply := u.Read(p, &command.HGetAll{Key: p})
	switch {
	case w.failed(reply):
	case !many && len(reply.Items) == 0:
		w.Null()
	case !many:
		w.Bulk(reply.Items[rand.IntN(len(reply.Items))].Field)
	default:
		chosen, err := choose(reply.Items, n)
		if err != nil {
			w.Fail(err)
			return
		}
		writeFields(w, chosen, values)
	}
}

// maxRandom is how many fields are returned when the same ones may come again.
const maxRandom = 1 << 20

// choose chooses so many different ones, or so many that may be the same.
func choose(items []command.Item, n int64) (chosen []command.Item, err error) {
	switch {
	case len(items) == 0 || n == 0:
		return nil, nil
	case n < -maxRandom:
		return nil, Error("ERR value is out of range")
	case n < 0:
		for range -n {
			chosen = append(chosen, items[rand.IntN(len(items))])
		}
		return chosen, nil
	}
	for _, i := range rand.Perm(len(items))[:min(n, int64(len(items)))] {
		chosen = append(chosen, items[i])
	}
	return chosen, nil
}

// writeFields writes names, and values: as pairs to those who know RESP3.
func writeFields(w *Writer, items []command.Item, values bool) {
	switch {
	case values && w.Version == 3:
		w.Array(len(items))
	case values:
		w.Array(2 * len(items))
	default:
		w.Array(len(items))
	}
	for _, item := range items {
		if values && w.Version == 3 {
			w.Array(2)
		}
		w.Bulk(item.Field)
		if values {
			w.Bulk(item.Value)
		}
	}
}
