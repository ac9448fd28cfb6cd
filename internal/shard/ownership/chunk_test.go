package ownership

import (
	"fmt"
	"testing"
)

// One range of many that are served goes, or comes back, wherever it is: at the edge
// of what is kept together as well.
func TestWhatIsNotServedAmongManyIsNotRead(t *testing.T) {
	const n = 400
	var all []Range
	for i := range n {
		all = append(all, Range{Span: spanOf(fmt.Sprintf("%04d", i), fmt.Sprintf("%04d", i+1)), State: Serving})
	}
	list, err := NewTable(all...)
	if err != nil {
		t.Fatal(err)
	}
	if end, ok := list.FindReadableEnd(positionOf("0000")); !ok || string(end) != fmt.Sprintf("%04d", n) {
		t.Fatalf("read up to %q, %v", end, ok)
	}
	for i := range n {
		foreign := all[i]
		foreign.State = Foreign
		for _, become := range [][]Range{nil, {foreign}} {
			without, _, err := list.changeRanges(all[i:i+1], become)
			if err != nil {
				t.Fatal(err)
			}
			back, _, err := without.changeRanges(become, all[i:i+1])
			if err != nil {
				t.Fatal(err)
			}
			for k := max(0, i-1); k < min(n, i+2); k++ {
				p := append(positionOf(fmt.Sprintf("%04d", k)), 'x')
				if without.CanRead(p) != (k != i) || !back.CanRead(p) {
					t.Fatalf("without %d, as %v: %q is read %v, and %v when it is back", i, become, p, without.CanRead(p), back.CanRead(p))
				}
			}
			if end, ok := without.FindReadableEnd(all[0].Span.Start); i > 0 && (!ok || string(end) != string(all[i].Span.Start)) {
				t.Fatalf("without %d: read up to %q, %v", i, end, ok)
			}
			if !back.CanReadSpan(spanOf("0000", fmt.Sprintf("%04d", n))) || without.CanReadSpan(spanOf("0000", fmt.Sprintf("%04d", n))) {
				t.Fatalf("%d: covers what it has not, or not what it has", i)
			}
		}
	}
	if list.CanRead(positionOf("/")) || list.CanRead(positionOf(fmt.Sprintf("%04d", n))) {
		t.Fatal("reads outside of all")
	}
}
