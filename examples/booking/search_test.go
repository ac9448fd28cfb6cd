package main

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestACustomerFindsWhatTheyBoughtWhateverTheShardKey(t *testing.T) {
	each(t, func(t *testing.T, l *line, c cabin) {
		ctx := t.Context()
		s, err := openSearch(ctx, l)
		if err != nil {
			t.Fatal(err)
		}
		customer := "ann of " + c.sailing
		want := deck(c.sailing, 3)
		for i, c := range append(want, cabin{c.sailing, "C900"}) {
			if err := l.hold(ctx, c, customer, "1200", time.Hour); err != nil {
				t.Fatal(err)
			}
			if i < len(want) {
				if err := l.confirm(ctx, c, customer); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got, err := s.bought(ctx, customer); err != nil || !slices.Equal(got, want) {
			t.Errorf("bought %v, want %v: %v", got, want, err)
		}
		if got, err := s.bought(ctx, "nobody"); err != nil || len(got) != 0 {
			t.Errorf("nobody has bought %v: %v", got, err)
		}
		report, err := s.history.Verify(ctx)
		if err != nil || !report.Clean() {
			t.Errorf("%+v: %v", report, err)
		}
	})
}

func TestSailingsAreFoundByTheirRoute(t *testing.T) {
	db, err := memory()
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	l, err := openLine(ctx, db, designs[0])
	if err != nil {
		t.Fatal(err)
	}
	s, err := openSearch(ctx, l)
	if err != nil {
		t.Fatal(err)
	}
	for i, day := range []string{"2027-03-01", "2027-01-09", "2027-02-20"} {
		if err := s.announce(ctx, fmt.Sprint("S", i), "Oslo", "Bergen", day, "Fram"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.announce(ctx, "S8", "Oslo", "Bergen East", "2027-03-01", "Gjøa"); err != nil {
		t.Fatal(err)
	}
	expect := func(want ...string) {
		t.Helper()
		if got, err := s.between(ctx, "Oslo", "Bergen", "2027-02"); err != nil || !slices.Equal(got, want) {
			t.Errorf("found %q, want %q: %v", got, want, err)
		}
	}
	expect("S2 2027-02-20 Fram", "S0 2027-03-01 Fram")
	if err := s.announce(ctx, "S1", "Oslo", "Bergen", "2027-02-25", "Gjøa"); err != nil { // put off
		t.Fatal(err)
	}
	if _, err := s.sailings.Delete(ctx, []byte("S0")); err != nil {
		t.Fatal(err)
	}
	expect("S2 2027-02-20 Fram", "S1 2027-02-25 Gjøa")
}
