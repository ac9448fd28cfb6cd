package rowcache

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"
	"unsafe"
)

func mustGet(t *testing.T, table *Cache, key string, want State, value string) {
	t.Helper()
	v, state := table.Get([]byte(key), nil)
	if state != want || string(v) != value {
		t.Fatalf("Get(%q) = %.20q, %v; want %.20q, %v", key, v, state, value, want)
	}
}

func TestEmptyKeysAndValuesAreRows(t *testing.T) {
	table := New(Options{})
	mustGet(t, table, "", Unknown, "")
	table.Publish(1, nil, nil, false)
	mustGet(t, table, "", Present, "")
	table.Publish(1, nil, nil, true)
	mustGet(t, table, "", Absent, "")
	table.Publish(1, nil, []byte("v"), false)
	mustGet(t, table, "", Present, "v")
	if !table.Fill(table.NewTicket([]byte("k")), []byte("k"), nil, true) {
		t.Fatal("fill refused")
	}
	mustGet(t, table, "k", Present, "")
}

func TestTheLargestValueIsKeptWhilePinned(t *testing.T) {
	table := New(Options{Bytes: 16 << 20})
	value := bytes.Repeat([]byte("0123456789abcdef"), 4<<20)
	key := []byte("large")
	table.Publish(1, key, value, false)
	table.Publish(2, key, value, false)
	got, state := table.Get(key, nil)
	if state != Present || !bytes.Equal(got, value) {
		t.Fatalf("%v, %d bytes", state, len(got))
	}
	if m := table.Metrics(); m.Bytes > 16<<20+65<<20 {
		t.Fatalf("the replaced value is still held: %+v", m)
	}
	table.SetApplied(2)
	table.Trim()
	mustGet(t, table, "large", Unknown, "")
	if m := table.Metrics(); m.Bytes > 1<<20 {
		t.Fatalf("not given back: %+v", m)
	}
	if table.Fill(table.NewTicket(key), key, value, true) {
		t.Fatal("a value above a stripe's share was cached")
	}
}

func TestStripesDoNotShareCacheLines(t *testing.T) {
	if size := unsafe.Sizeof(stripe{}); size%128 != 0 {
		t.Fatalf("a stripe has %d bytes", size)
	}
}

func TestTicketsAreVoid(t *testing.T) {
	k, other := []byte("k"), []byte("other")
	for _, c := range []struct {
		name string
		do   func(*Cache) Ticket
		want bool
	}{
		{"never", func(table *Cache) Ticket { return table.NewTicket(k) }, true},
		{"if zero", func(*Cache) Ticket { return Ticket{} }, false},
		{"for other keys", func(table *Cache) Ticket { return table.NewTicket(other) }, false},
		{"if the key is known", func(table *Cache) Ticket {
			table.Publish(1, k, []byte("new"), false)
			return table.NewTicket(k)
		}, false},
		{"if the key was known, even after it was forgotten", func(table *Cache) Ticket {
			table.Publish(1, k, []byte("new"), false)
			tk := table.NewTicket(k)
			table.SetApplied(1)
			table.DropRange(nil, nil)
			return tk
		}, false},
		{"after a publication that was forgotten", func(table *Cache) Ticket {
			tk := table.NewTicket(k)
			table.Publish(1, k, []byte("new"), false)
			table.SetApplied(1)
			table.DropRange(nil, nil)
			return tk
		}, false},
		{"after a publication that was evicted", func(table *Cache) Ticket {
			tk := table.NewTicket(k)
			table.Publish(1, k, []byte("new"), false)
			table.SetApplied(1)
			for i := 0; ; i++ {
				if table.NewTicket(k).valid {
					return tk
				}
				other := fmt.Appendf(nil, "other %d", i)
				table.Fill(table.NewTicket(other), other, make([]byte, 100), true)
			}
		}, false},
		{"after a drop", func(table *Cache) Ticket {
			tk := table.NewTicket(k)
			table.DropRange([]byte("x"), []byte("y"))
			return tk
		}, false},
		{"after another fill", func(table *Cache) Ticket {
			tk := table.NewTicket(k)
			table.Fill(tk, k, []byte("first"), true)
			return tk
		}, false},
	} {
		table := New(Options{Bytes: minStripeBytes})
		if got := table.Fill(c.do(table), k, []byte("filled"), true); got != c.want {
			t.Errorf("%s: Fill = %v, want %v", c.name, got, c.want)
		}
	}
}

func TestALowerGenerationDoesNotUnpin(t *testing.T) {
	table := New(Options{Bytes: minStripeBytes})
	table.Publish(5, []byte("k"), []byte("five"), false)
	table.Publish(4, []byte("k"), []byte("four"), false)
	table.SetApplied(4)
	table.SetApplied(3) // does not go back
	table.DropRange(nil, nil)
	mustGet(t, table, "k", Present, "four")
	table.SetApplied(5)
	table.DropRange(nil, nil)
	mustGet(t, table, "k", Unknown, "")
}

// publishBurst publishes so many rows of 200 bytes.
func publishBurst(table *Cache, gen uint64, count int) {
	for i := range count {
		table.Publish(gen, fmt.Appendf(nil, "burst %d", i), make([]byte, 200), false)
	}
}

func TestTheTableShrinksAfterABurst(t *testing.T) {
	o := Options{Bytes: 1 << 20, Stripes: 4}
	for name, shrink := range map[string]func(*Cache){
		"by Trim": func(table *Cache) { table.Trim() },
		"by new rows": func(table *Cache) {
			for i := range 20_000 {
				k := fmt.Appendf(nil, "later %d", i)
				table.Fill(table.NewTicket(k), k, make([]byte, 200), true)
			}
		},
	} {
		table := New(o)
		publishBurst(table, 1, 50_000)
		if m := table.Metrics(); m.Rows != 50_000 || m.UnappliedBytes < 10_000_000 {
			t.Fatalf("pinned rows are missing: %+v", m)
		}
		checkMemory(t, table, o)
		table.SetApplied(1)
		shrink(table)
		if m := table.Metrics(); m.UnappliedBytes != 0 || m.Bytes > 5<<20/4 || m.Rows < 1000 {
			t.Fatalf("%s: %+v", name, m)
		}
	}
}

// Memory holds without Trim as well, while generations come and go.
func TestMemoryStaysBoundedUnderARollingLoad(t *testing.T) {
	o := Options{Bytes: 1 << 20, Stripes: 4}
	table := New(o)
	for gen := uint64(1); gen < 40; gen++ {
		for i := range 1000 {
			k := fmt.Appendf(nil, "key %d", (gen*761+uint64(i)*31)%20_000)
			table.Publish(gen, k, make([]byte, (uint64(i)*gen)%300), i%7 == 0)
			table.Get(k, nil)
		}
		if gen > 3 {
			table.SetApplied(gen - 3)
		}
		checkMemory(t, table, o)
	}
	if m := table.Metrics(); m.Evictions == 0 {
		t.Fatalf("nothing was evicted: %+v", m)
	}
}

func TestUsedRowsOutliveUnusedOnes(t *testing.T) {
	table := New(Options{Bytes: 1 << 20, Stripes: 1})
	key := func(kind string, i int) []byte { return fmt.Appendf(nil, "%s %d", kind, i) }
	for i := range 500 {
		for _, kind := range []string{"used", "unused"} {
			k := key(kind, i)
			table.Fill(table.NewTicket(k), k, make([]byte, 100), true)
		}
	}
	for i := range 20_000 { // several times the table
		k := key("passing", i)
		for range 2 { // as the first may be turned away
			table.Fill(table.NewTicket(k), k, make([]byte, 100), true)
		}
		table.Get(key("used", i%500), nil)
	}
	known := map[string]int{}
	for i := range 500 {
		for _, kind := range []string{"used", "unused"} {
			if _, state := table.Get(key(kind, i), nil); state == Present {
				known[kind]++
			}
		}
	}
	if known["used"] < 450 || known["unused"] > 0 {
		t.Fatalf("of 500 each: %v", known)
	}
}

func TestWarmOperationsDoNotAllocate(t *testing.T) {
	table := New(Options{Bytes: 1 << 20, Stripes: 1})
	publishBurst(table, 1, 20_000)
	table.SetApplied(1)
	table.Trim()
	key, value, buffer := make([]byte, 0, 16), make([]byte, 200), make([]byte, 0, 256)
	n := 0
	allocs := testing.AllocsPerRun(20_000, func() {
		n++
		key = strconv.AppendInt(key[:0], int64(n%10_000), 10)
		table.Publish(0, key, value, false)
		table.Get(key, buffer)
	})
	if allocs != 0 {
		t.Fatalf("%v allocations", allocs)
	}
}

func TestOptionsAreMadeConsistent(t *testing.T) {
	for _, c := range []struct {
		in      Options
		bytes   int64
		stripes int
	}{
		{Options{}, 64 << 20, 64},
		{Options{Bytes: 1}, 64 << 10, 1},
		{Options{Bytes: -1}, 64 << 20, 64},
		{Options{Bytes: 1 << 20, Stripes: 3}, 1 << 20, 4},
		{Options{Bytes: 192 << 10, Stripes: 3}, 192 << 10, 2},
		{Options{Bytes: 1 << 20, Stripes: 1000}, 1 << 20, 16},
		{Options{Bytes: 1 << 40}, 1 << 40, 1024},
	} {
		got := c.in.withDefaults()
		if got.Bytes != c.bytes || got.Stripes != c.stripes {
			t.Errorf("%+v: %d bytes, %d stripes; want %d, %d", c.in, got.Bytes, got.Stripes, c.bytes, c.stripes)
		}
	}
}

func TestATicketTakenWhileTheKeyIsPinnedIsVoid(t *testing.T) {
	table := New(Options{Bytes: 64 << 10, Stripes: 1})
	key := []byte("key")
	table.Publish(1, key, []byte("new"), false)
	tk := table.NewTicket(key) // its holder reads the state now, which is older
	table.SetApplied(1)
	for i := 0; ; i++ { // fills move no counter: only the ticket itself can tell
		if _, state := table.Get(key, nil); state == Unknown {
			break
		}
		for j := range 1000 {
			other := fmt.Append(nil, "other", i, j)
			for range 2 { // as the first may be turned away
				table.Fill(table.NewTicket(other), other, other, true)
			}
		}
	}
	if table.Fill(tk, key, []byte("old"), true) {
		value, _ := table.Get(key, nil)
		t.Errorf("the table says %q, but new was published", value)
	}
}

func TestATableThatIsWholeKnowsWhatIsAbsent(t *testing.T) {
	table := New(Options{Bytes: 1 << 20, Stripes: 1})
	know := func(when string, want State) {
		t.Helper()
		_, known := table.LookupSize([]byte("nobody"))
		if _, state := table.Get([]byte("nobody"), nil); state != want || known != (want != Unknown) {
			t.Errorf("%s: %v, want %v", when, state, want)
		}
	}
	know("new", Unknown)
	g := table.BeginPreload()
	for i := range 100 {
		k := fmt.Appendf(nil, "key%d", i)
		if got := g.Fill(table.NewTicket(k), k, k); got != Known {
			t.Fatal(got)
		}
	}
	know("while it is gathered", Unknown)
	if !g.End() {
		t.Error("it is not whole")
	}
	know("whole", Absent)
	table.Publish(1, []byte("gone"), nil, true)
	table.SetApplied(1)
	for i := 0; table.Metrics().Evictions == 0; i++ {
		table.Publish(2, fmt.Appendf(nil, "other%d", i), make([]byte, 1000), false)
		table.SetApplied(2)
	}
	know("when rows had to go", Unknown)
	g = table.BeginPreload()
	for i := range 1000 {
		k := fmt.Appendf(nil, "more%d", i)
		g.Fill(table.NewTicket(k), k, make([]byte, 1000))
	}
	if g.End() {
		t.Error("it is whole though there was no room")
	}
	know("when there was no room", Unknown)
}
