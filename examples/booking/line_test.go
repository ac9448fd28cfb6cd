package main

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/key"
)

// late is by how much the tests have set their clock forward.
var late atomic.Int64

func pass(d time.Duration) { late.Add(int64(d)) }

// memory is one store for all tests: it takes longer to make than to use.
var memory = sync.OnceValues(func() (*cleave.DB, error) {
	o := options
	o.Now = func() time.Time { return time.Now().Add(time.Duration(late.Load())) }
	return cleave.OpenMemory(o)
})

// newSailing is one that no test has sold cabins of, nor will.
func newSailing() string { return fmt.Sprint("T", sailings.Add(1)) }

var sailings atomic.Int64

func TestMain(m *testing.M) {
	code := m.Run()
	if db, err := memory(); err == nil {
		_ = db.Close()
	}
	os.Exit(code)
}

// each runs a test for each design, with a cabin of its own.
func each(t *testing.T, test func(t *testing.T, l *line, c cabin)) {
	db, err := memory()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range designs {
		t.Run(d.name, func(t *testing.T) {
			l, err := openLine(t.Context(), db, d)
			if err != nil {
				t.Fatal(err)
			}
			test(t, l, cabin{newSailing(), "C014"})
		})
	}
}

// expect checks an error, and what the cabin's row says.
func expect(t *testing.T, l *line, c cabin, got, want error, says string) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if now, err := l.plan(t.Context(), []cabin{c}); err != nil || now[0] != says {
		t.Errorf("the cabin is %q, want %q: %v", now, says, err)
	}
}

func TestExactlyOneOfTwoCustomersGetsACabin(t *testing.T) {
	each(t, func(t *testing.T, l *line, c cabin) {
		cabins := deck(c.sailing, 25)
		if refused, err := race(t.Context(), l, cabins); err != nil || refused != len(cabins) {
			t.Errorf("%d refused of %d: %v", refused, 2*len(cabins), err)
		}
	})
}

func TestAHoldEndsByItself(t *testing.T) {
	each(t, func(t *testing.T, l *line, c cabin) {
		ctx := t.Context()
		expect(t, l, c, l.hold(ctx, c, "ann", "1200", time.Hour), nil, held("ann"))
		expect(t, l, c, l.hold(ctx, c, "ben", "1300", time.Hour), errTaken, held("ann"))
		pass(50 * time.Minute)
		expect(t, l, c, l.hold(ctx, c, "ann", "1200", time.Hour), nil, held("ann"))
		pass(50 * time.Minute) // it began anew
		expect(t, l, c, l.hold(ctx, c, "ben", "1300", time.Hour), errTaken, held("ann"))
		pass(11 * time.Minute)
		expect(t, l, c, l.confirm(ctx, c, "ann"), errNotHeld, "")
		expect(t, l, c, l.hold(ctx, c, "ben", "1300", time.Hour), nil, held("ben"))
		expect(t, l, c, l.confirm(ctx, c, "ben"), nil, sold("ben"))
		pass(1000 * time.Hour)
		expect(t, l, c, l.hold(ctx, c, "ann", "1200", time.Hour), errTaken, sold("ben"))
	})
}

func TestOnlyWhoHoldsACabinConfirmsOrReleasesIt(t *testing.T) {
	each(t, func(t *testing.T, l *line, c cabin) {
		ctx := t.Context()
		expect(t, l, c, l.release(ctx, c, "ann"), errNotHeld, "")
		expect(t, l, c, l.confirm(ctx, c, "ann"), errNotHeld, "")
		expect(t, l, c, l.hold(ctx, c, "ann", "1200", time.Hour), nil, held("ann"))
		expect(t, l, c, l.release(ctx, c, "ben"), errNotHeld, held("ann"))
		expect(t, l, c, l.confirm(ctx, c, "ben"), errNotHeld, held("ann"))
		expect(t, l, c, l.release(ctx, c, "ann"), nil, "")
		expect(t, l, c, l.release(ctx, c, "ann"), errNotHeld, "")
		expect(t, l, c, l.hold(ctx, c, "ben", "1300", time.Hour), nil, held("ben"))
		for range 2 { // an answer may be lost, and the question asked again
			expect(t, l, c, l.confirm(ctx, c, "ben"), nil, sold("ben"))
		}
		expect(t, l, c, l.release(ctx, c, "ben"), errNotHeld, sold("ben"))
		k, err := l.keys(l.layout, c, "ben")
		if err != nil {
			t.Fatal(err)
		}
		if price, err := l.rows.Get(ctx, k.contract); string(price) != "1300" {
			t.Errorf("sold at %q: %v", price, err)
		}
		if there, err := l.rows.Exists(ctx, k.hold); there || err != nil {
			t.Errorf("the hold is still there: %v", err)
		}
	})
}

// Rows of one slot are in one shard, wherever it is and however often it moves.
func TestOnlyTheKeyByCustomerLeavesTheSlot(t *testing.T) {
	c := cabin{"S7", "C014"}
	l, err := key.ParseLayout(layout)
	if err != nil {
		t.Fatal(err)
	}
	slots := map[string]int{"by cabin": 1, "by sailing": 1, "by customer": 2}
	for _, d := range designs {
		k, err := d.keys(l, c, "ann")
		if err != nil {
			t.Fatal(err)
		}
		seen := map[hash.Slot]bool{}
		for _, key := range [][]byte{k.cabin, k.hold, k.contract} {
			seen[hash.SlotOf(key)] = true
		}
		if len(seen) != slots[d.name] {
			t.Errorf("%s: %d slots", d.name, len(seen))
		}
	}
	k, err := designs[0].keys(l, c, "ann")
	if err != nil {
		t.Fatal(err)
	}
	want := `home="{S7/C014}" | row="hold" sailing="S7" cabin="C014"`
	if text, err := l.Format(k.hold); text != want {
		t.Errorf("%s, want %s: %v", text, want, err)
	}
}
