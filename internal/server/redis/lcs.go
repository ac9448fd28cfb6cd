package redis

import (
	"slices"

	"github.com/cleavekv/cleave/internal/shard/command"
)

func init() {
	register(&Spec{Name: "lcs", Arity: -3, Flags: ReadOnly | Heavy, ACL: StringType, Keys: KeySpec{1, 2, 1}, run: runLCS,
		Doc: Doc{"string", "7.0.0", "Returns the longest text that two values have in common, with gaps.", "O(N*M) for values of N and M bytes",
			"The product of the two lengths is at most 64 Mi."}})
}

// maxLCSCells is how many cells the table of an LCS may have: it takes four bytes for each.
const maxLCSCells = 64 << 20

// lcsOptions are what is asked of an LCS.
type lcsOptions struct {
	lengthOnly, withIndexes, withLengths bool
	minLength                            int64
}

func parseLCSOptions(words [][]byte) (o lcsOptions, err error) {
	for i := 0; i < len(words); i++ {
		switch word := words[i]; {
		case isKeyword(word, "LEN"):
			o.lengthOnly = true
		case isKeyword(word, "IDX"):
			o.withIndexes = true
		case isKeyword(word, "WITHMATCHLEN"):
			o.withLengths = true
		case isKeyword(word, "MINMATCHLEN") && i+1 < len(words):
			i++
			n, ok := parseInteger(words[i])
			if !ok {
				return o, ErrNotInteger
			}
			o.minLength = max(0, n)
		default:
			return o, ErrSyntax
		}
	}
	if o.lengthOnly && o.withIndexes {
		return o, Error("ERR If you want both the length and indexes, please just use IDX.")
	}
	return o, nil
}

func runLCS(u KeyspaceView, r *Request, w *Writer) {
	var texts [2][]byte
	for i := range texts {
		p := u.PositionOf(r.Args[1+i])
		reply := u.Read(p, &command.Get{Key: p})
		if reply.Err != nil {
			w.Fail(Error("ERR The specified keys must contain string values"))
			return
		}
		texts[i] = slices.Clone(reply.Bytes)
	}
	o, err := parseLCSOptions(r.Args[3:])
	if err != nil {
		w.Fail(err)
		return
	}
	a, b := texts[0], texts[1]
	if (int64(len(a))+1)*(int64(len(b))+1) > maxLCSCells {
		w.Fail(Error("ERR String too long for LCS"))
		return
	}
	t := newLCSTable(a, b)
	switch {
	case o.lengthOnly:
		w.Int(int64(t.lengthAt(len(a), len(b))))
	case o.withIndexes:
		t.writeMatches(w, o)
	default:
		w.Bulk(t.commonText())
	}
}

// lcsTable is the table of the lengths of what the beginnings of two texts have in common.
type lcsTable struct {
	a, b  []byte
	cells []uint32
}

func newLCSTable(a, b []byte) *lcsTable {
	t := &lcsTable{a, b, make([]uint32, (len(a)+1)*(len(b)+1))}
	width := len(b) + 1
	for i := 1; i <= len(a); i++ {
		row, above := t.cells[i*width:(i+1)*width], t.cells[(i-1)*width:i*width]
		for j := 1; j <= len(b); j++ {
			if a[i-1] == b[j-1] {
				row[j] = above[j-1] + 1
			} else {
				row[j] = max(above[j], row[j-1])
			}
		}
	}
	return t
}

func (t *lcsTable) lengthAt(i, j int) uint32 { return t.cells[i*(len(t.b)+1)+j] }

// visitPairs visits the pairs of bytes that are in common, the last ones first.
func (t *lcsTable) visitPairs(visit func(i, j int)) {
	i, j := len(t.a), len(t.b)
	for i > 0 && j > 0 {
		switch {
		case t.a[i-1] == t.b[j-1]:
			i, j = i-1, j-1
			visit(i, j)
		case t.lengthAt(i-1, j) > t.lengthAt(i, j-1):
			i--
		default:
			j--
		}
	}
}

func (t *lcsTable) commonText() []byte {
	out := make([]byte, 0, t.lengthAt(len(t.a), len(t.b)))
	t.visitPairs(func(i, _ int) { out = append(out, t.a[i]) })
	slices.Reverse(out)
	return out
}

// lcsMatch is a part that both texts have without a gap.
type lcsMatch struct{ a, b, n int }

// writeMatches writes where the parts are, the last ones first.
func (t *lcsTable) writeMatches(w *Writer, o lcsOptions) {
	var parts []lcsMatch
	t.visitPairs(func(i, j int) {
		if last := len(parts) - 1; last >= 0 && parts[last].a == i+1 && parts[last].b == j+1 {
			parts[last] = lcsMatch{i, j, parts[last].n + 1}
			return
		}
		parts = append(parts, lcsMatch{i, j, 1})
	})
	parts = slices.DeleteFunc(parts, func(s lcsMatch) bool { return int64(s.n) < o.minLength })
	w.Map(2)
	w.Text("matches")
	w.Array(len(parts))
	for _, s := range parts {
		n := 2
		if o.withLengths {
			n = 3
		}
		w.Array(n)
		for _, from := range []int{s.a, s.b} {
			w.Array(2)
			w.Int(int64(from))
			w.Int(int64(from + s.n - 1))
		}
		if o.withLengths {
			w.Int(int64(s.n))
		}
	}
	w.Text("len")
	w.Int(int64(t.lengthAt(len(t.a), len(t.b))))
}
