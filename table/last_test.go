package table

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/key"
)

// entityLayouts are those of rows that belong to a dev, by time: the bucket before or
// behind it, with salts everywhere, and times that are in the key as a bucket alone.
var entityLayouts = []string{
	"dev | ts:time, id:int",
	"(dev, hour(ts)) | ts, id:int",
	"(dev, day(ts), hour(ts)) | ts, id:int",
	"salt(3) | dev, hour(ts), ts, id:int",
	"salt(3, dev) | dev, hour(ts), ts, id:int",
	"(dev, salt(3, id), hour(ts)) | ts, id:int",
	"(hash(dev), dev, hour(ts)) | ts, id:int",
	"(hour(ts), hash(dev), dev) | ts, id:int",
	"(dev, hour(ts), salt(3, id)) | ts, id:int",
	"(dev, hour(ts)) | id:int",
	"salt(2, id) | dev, hour(ts), id:int",
	"(hour(ts), dev) | ts, id:int",
	"(hour(ts), salt(3, id)) | dev, ts, id:int",
	"(hour(ts), salt(2, dev)) | dev, ts, id:int",
	"(hour(ts), dev) | id:int",
}

// bucketFirst reports whether each bucket is a read of its own.
func bucketFirst(m *model) bool { return m.fields[0].Bucket != 0 }

// lastRows is the answer to Last by a walk over all buckets.
func (m *model) lastRows(l Last) (key.Found[modelRow], error) {
	bucket := key.Bucket(0)
	for _, f := range m.fields {
		if f.Bucket != 0 {
			bucket = f.Bucket
			break
		}
	}
	rows := slices.DeleteFunc(m.sortedRows(true), func(r modelRow) bool { return r.columns["dev"] != l.Where["dev"] })
	exact := m.columnField("ts") != nil
	return key.Latest(key.Backward{Bucket: bucket, Before: l.Before, Since: l.Since, MaxEmpty: l.MaxEmpty}, l.N,
		func(p key.Piece, _ int) iter.Seq2[modelRow, error] {
			return func(yield func(modelRow, error) bool) {
				for _, r := range rows {
					at := r.columns["ts"].(time.Time)
					in := p.Span.Contains(at) && !(exact && (at.Before(p.From) || !at.Before(p.To)))
					if in && !yield(r, nil) {
						return
					}
				}
			}
		})
}

func fillEntities(t *rapid.T, m *machine) {
	devs := []any{"a", "b", int64(7)}
	for range rapid.IntRange(0, 30).Draw(t, "rows") {
		c := key.Columns{
			"dev": rapid.SampledFrom(devs).Draw(t, "dev"),
			"ts":  testEpoch.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "ts")) * 15 * time.Minute),
			"id":  rapid.Int64Range(0, 2).Draw(t, "id"),
		}
		v, salt := m.nextValue(), 0
		if m.salter != nil {
			m.salter.nextSalt = rapid.IntRange(0, m.salter.salts-1).Draw(t, "salt")
			salt = m.salter.nextSalt
		}
		if err := m.table.Put(background, c, []byte(v)); err != nil {
			t.Fatal(err)
		}
		m.model.putRow(c, salt, v)
	}
}

func entityMachine(t *rapid.T, db *cleave.DB, layout string) *machine {
	l := must(key.ParseLayout(layout))
	m := &machine{db: db, model: newModel(l)}
	o := Options{}
	if m.model.isSaltPicked() {
		m.salter = &chosenSalter{salts: l.Salts()}
		o.Salter = m.salter
	}
	m.table = openTable(t, db, layout, o)
	return m
}

func drawLast(t *rapid.T, m *model) Last {
	l := Last{N: rapid.IntRange(1, 6).Draw(t, "n")}
	drawTime := func(name string) time.Time {
		return testEpoch.Add(time.Duration(rapid.IntRange(-4, 66).Draw(t, name)) * 15 * time.Minute)
	}
	l.Before = drawTime("before")
	if rapid.Bool().Draw(t, "since?") {
		l.Since = drawTime("since")
		if l.Before.Before(l.Since) {
			l.Before, l.Since = l.Since, l.Before
		}
	}
	if bucketed := m.layout.String() != entityLayouts[0]; bucketed {
		l.MaxEmpty = rapid.IntRange(0, 4).Draw(t, "max empty")
	}
	return l
}

func TestTheLastRowsAreThoseOfAWalkOverAllBuckets(t *testing.T) {
	db := sharedStore
	rapid.Check(t, func(t *rapid.T) {
		m := entityMachine(t, db, rapid.SampledFrom(entityLayouts).Draw(t, "layout"))
		defer db.DropKeyspace(background, m.table.ks.Name())
		fillEntities(t, m)
		for range 5 {
			l := drawLast(t, m.model)
			l.Where = key.Columns{"dev": rapid.SampledFrom([]any{"a", "b", int64(7), "none"}).Draw(t, "of")}
			var got Newest
			m.runBothWays(t, true,
				func() (err error) { got, err = m.table.Last(background, l); return err },
				func(x Txn) (err error) { got, err = x.Last(l); return err })
			m.checkLast(t, l, got)
		}
	})
}

func (m *machine) checkLast(t *rapid.T, l Last, got Newest) {
	oracle := l
	unbucketed := m.model.layout.String() == entityLayouts[0]
	if unbucketed {
		oracle.MaxEmpty = 0
	}
	if oracle.Since.IsZero() && oracle.MaxEmpty == 0 { // then it has no floor: take one before all rows
		oracle.Since = testEpoch.Add(-24 * time.Hour)
	}
	if unbucketed {
		want := m.model.queryRows(Query{Where: l.Where, From: oracle.Since, To: l.Before, Reverse: true, Limit: l.N})
		m.compareRows(t, fmt.Sprintf("%+v", l), got.Rows, want)
		return
	}
	want, err := m.model.lastRows(oracle)
	if err != nil {
		t.Fatal(err)
	}
	m.compareRows(t, fmt.Sprintf("%+v", l), got.Rows, want.Items)
	if got.Stop != want.Stop || got.Stop == key.StopEmpty && !got.Reached.Equal(want.Reached) {
		t.Fatalf("%v: %+v: stopped with %v at %v, want %v at %v", m.model.layout, l, got.Stop, got.Reached, want.Stop, want.Reached)
	}
	// Of the buckets that a walk comes to, those that have rows are read.
	most := 1
	if bucketFirst(m.model) {
		most = min(want.Buckets, len(m.model.buckets(Query{})))
	}
	if got.Reads > most || got.Reads < 1 && !bucketFirst(m.model) {
		t.Fatalf("%v: %d reads of %d buckets", m.model.layout, got.Reads, most)
	}
}

func TestTheLastRowsOfEachAreThoseOfEveryOne(t *testing.T) {
	db := sharedStore
	rapid.Check(t, func(t *rapid.T) {
		var layouts []string
		for _, l := range entityLayouts {
			if !bucketFirst(newModel(must(key.ParseLayout(l)))) {
				layouts = append(layouts, l)
			}
		}
		m := entityMachine(t, db, rapid.SampledFrom(layouts).Draw(t, "layout"))
		defer db.DropKeyspace(background, m.table.ks.Name())
		fillEntities(t, m)
		l := drawLast(t, m.model)
		l.MaxEmpty = 0
		var got []Row
		m.runBothWays(t, true,
			func() (err error) { got, err = collectRows(m.table.LastOfEach(background, l)); return err },
			func(x Txn) (err error) { got, err = collectRows(x.LastOfEach(l)); return err })
		var want []modelRow
		devs := []any{"a", "b", int64(7)}
		slices.SortFunc(devs, func(a, b any) int {
			at := func(dev any) key.Tuple { return m.model.sortKey(key.Columns{"dev": dev, "ts": testEpoch, "id": 0}) }
			return key.Compare(at(a), at(b))
		})
		for _, dev := range devs {
			q := Query{Where: key.Columns{"dev": dev}, To: l.Before, Reverse: true, Limit: l.N}
			if !l.Since.IsZero() {
				q.From = l.Since
			}
			want = append(want, m.model.queryRows(q)...)
		}
		m.compareRows(t, fmt.Sprintf("each %+v", l), got, want)
	})
}

func TestLastRefusesWhatTheLayoutCannotAnswer(t *testing.T) {
	db := sharedStore
	dev := key.Columns{"dev": "a"}
	for _, c := range []struct {
		layout string
		last   Last
	}{
		{"(dev, hour(ts)) | ts", Last{Where: dev}},
		{"(dev, hour(ts)) | ts", Last{Where: dev, N: 1, MaxEmpty: -1}},
		{"(dev, hour(ts)) | ts", Last{N: 1}},
		{"(dev, hour(ts)) | ts", Last{N: 1, Where: dev, Before: testEpoch, Since: testEpoch.Add(1)}},
		{"(dev, hour(ts)) | ts", Last{N: 1, Where: key.Columns{"dev": "a", "ts": testEpoch}}},
		{"dev | ts:time", Last{Where: dev, N: 1, MaxEmpty: 1}},
		{"dev | n:int", Last{Where: dev, N: 1}},
		{"(hour(ts), dev) | ts", Last{N: 1, Before: testEpoch, Since: testEpoch}},
		{"(month(ts), hour(ts), dev) | ts", Last{N: 1, Where: dev, Before: testEpoch, Since: testEpoch}},
		{"(hour(ts), dev, month(ts)) | ts", Last{N: 1, Where: dev, Before: testEpoch, Since: testEpoch}},
		{"dev, hash(ts), ts:time", Last{N: 1, Where: dev}},
		{"dev, hour(ts), hash(ts), ts:time", Last{N: 1, Where: dev}},
	} {
		table := openTable(t, db, c.layout, Options{})
		if _, err := table.Last(background, c.last); !errors.Is(err, ErrQuery) {
			t.Errorf("%s, %+v: %v, want ErrQuery", c.layout, c.last, err)
		}
	}
	for _, c := range []struct {
		layout string
		last   Last
	}{
		{"(dev, hour(ts)) | ts", Last{}},
		{"(dev, hour(ts)) | ts", Last{N: 1, MaxEmpty: 1}},
		{"(dev, hour(ts)) | ts", Last{N: 1, Where: dev}},
		{"dev | n:int", Last{N: 1}},
		{"(hour(ts), dev) | ts", Last{N: 1}},
		{"(dev, hour(ts), id) | ts", Last{N: 1}},
		{"dev, hash(ts), ts:time", Last{N: 1}},
	} {
		table := openTable(t, db, c.layout, Options{})
		if _, err := collectRows(table.LastOfEach(background, c.last)); !errors.Is(err, ErrQuery) {
			t.Errorf("each of %s, %+v: %v, want ErrQuery", c.layout, c.last, err)
		}
	}
}
