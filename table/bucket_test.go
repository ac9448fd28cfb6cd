package table

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/key"
)

// bucketField is the index of the first bucket, -1 if there is none, or none that a table can list.
func (m *model) bucketField() int {
	at := slices.IndexFunc(m.fields, func(f key.Field) bool { return f.Bucket != 0 })
	for i := range max(at, 0) {
		if f := m.fields[i]; f.Hash && !slices.ContainsFunc(m.fields[:at], func(c key.Field) bool { return c.IsColumn() && c.Column == f.Column }) {
			return -1
		}
	}
	return at
}

// bucketName is the columns in front of the first bucket, and the bucket.
func (m *model) bucketName(c key.Columns, span int64) string {
	at, name := m.bucketField(), ""
	for _, f := range m.fields[:at] {
		if f.IsColumn() {
			name += fmt.Sprintf("%s=%T %[2]v ", f.Column, toElement(f, c[f.Column]))
		}
	}
	return name + fmt.Sprint(span)
}

// buckets are the names of those that have rows of a query, in order.
func (m *model) buckets(q Query) (names []string) {
	f := m.fields[m.bucketField()]
	for _, r := range m.queryRows(q) {
		name := m.bucketName(r.columns, toElement(f, r.columns[f.Column]).(int64))
		if len(names) == 0 || names[len(names)-1] != name {
			names = append(names, name)
		}
	}
	return names
}

// A bucket is listed if, and only if, it has a row, whatever the layout, and its Where reads its rows.
func TestBuckets_AreThoseThatHaveRows(t *testing.T) {
	db := sharedStore
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t, db)
		defer db.DropKeyspace(background, m.table.ks.Name())
		for range rapid.IntRange(0, 25).Draw(t, "operations") {
			rapid.SampledFrom([]func(*rapid.T){m.putRow, m.putRow, m.appendRow, m.deleteRow}).Draw(t, "operation")(t)
		}
		q := drawQuery(t, m.model)
		var got []Bucket
		collect := func(x Txn) (err error) {
			got, err = collectBuckets(x, q)
			return err
		}
		if m.model.bucketField() < 0 {
			if err := db.View(background, func(tx *cleave.Txn) error { return collect(m.table.In(tx)) }); !errors.Is(err, ErrQuery) {
				t.Fatalf("%v: %v, want ErrQuery", m.model.layout, err)
			}
			return
		}
		m.runBothWays(t, true, func() (err error) {
			got = nil
			for b, err := range m.table.Buckets(background, q) {
				if err != nil {
					return err
				}
				got = append(got, b)
			}
			return nil
		}, collect)
		limit := q.Limit
		q.Limit = 0
		want := m.model.buckets(q)
		if limit > 0 {
			want = want[:min(limit, len(want))]
		}
		var names []string
		for _, b := range got {
			names = append(names, m.model.bucketName(b.Where, b.Span.Index()))
		}
		if !slices.Equal(names, want) {
			t.Fatalf("%v: %+v: buckets %q, want %q", m.model.layout, q, names, want)
		}
		for _, b := range got {
			inside := Query{Where: b.Where}
			m.compareRows(t, fmt.Sprint(b), must(collectRows(m.table.Scan(background, inside))), m.model.queryRows(inside))
		}
	})
}

func collectBuckets(x Txn, q Query) (list []Bucket, err error) {
	for b, err := range x.Buckets(q) {
		if err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	return list, nil
}

// Whole buckets that have ended are dropped, and nothing else is.
func TestDropBefore_DropsTheBucketsThatHaveEnded(t *testing.T) {
	db := sharedStore
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t, db)
		defer db.DropKeyspace(background, m.table.ks.Name())
		for range rapid.IntRange(0, 25).Draw(t, "operations") {
			rapid.SampledFrom([]func(*rapid.T){m.putRow, m.putRow, m.appendRow}).Draw(t, "operation")(t)
		}
		before := testEpoch.Add(time.Duration(rapid.IntRange(-2, 40).Draw(t, "before")) * 15 * time.Minute)
		at := m.model.bucketField()
		if at < 0 {
			if _, err := m.table.DropBefore(background, before, nil); !errors.Is(err, ErrQuery) {
				t.Fatalf("%v: %v, want ErrQuery", m.model.layout, err)
			}
			return
		}
		where := key.Columns{}
		for i := range at { // of one entity
			if f := m.model.fields[i]; f.IsColumn() && rapid.Bool().Draw(t, "fix") {
				where[f.Column] = drawColumn(t, m.model.layout, f.Column)
			} else if f.Salts == 0 && !f.Hash {
				break
			}
		}
		if hashed := slices.ContainsFunc(m.model.fields[:at], func(f key.Field) bool { return f.Hash }); hashed {
			where = nil // the columns of hashes are to be given together
		}
		f := m.model.fields[at]
		want := 0
		m.model.rows = slices.DeleteFunc(m.model.rows, func(r modelRow) bool {
			span := must(f.Bucket.Of(r.columns[f.Column].(time.Time)))
			old := !span.End().After(before) && m.model.matchesQuery(r, Query{Where: where})
			if old {
				want++
			}
			return old
		})
		n, err := m.table.DropBefore(background, before, where)
		if err != nil || n != want {
			t.Fatalf("%v: dropped %d rows before %v of %v, %v; want %d", m.model.layout, n, before, where, err, want)
		}
		m.compareRows(t, "what is left", must(collectRows(m.table.Scan(background, Query{}))), m.model.queryRows(Query{}))
	})
}

// A bucket is in use from the transaction on that stores its first row.
func TestBuckets_OfATransaction_AreThoseThatItMakes(t *testing.T) {
	table := openTable(t, sharedStore, "(hour(ts), dev) | ts", Options{})
	row := key.Columns{"ts": testEpoch, "dev": "a"}
	err := sharedStore.Update(background, func(tx *cleave.Txn) error {
		x := table.In(tx)
		if err := x.Put(row, nil); err != nil {
			return err
		}
		if inside := must(collectBuckets(x, Query{})); len(inside) != 1 {
			t.Errorf("%v in the transaction", inside)
		}
		for b, err := range table.Buckets(background, Query{}) {
			t.Errorf("%v, %v outside of it", b, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := table.DropBefore(background, testEpoch.Add(time.Hour), nil); n != 1 || err != nil {
		t.Errorf("dropped %d, %v", n, err)
	}
	for b, err := range table.Buckets(background, Query{}) {
		t.Errorf("%v, %v after its last row was deleted", b, err)
	}
}

// A silent entity is looked for in the buckets that others have, and in no others: it needs no bounds.
func TestLast_OfASilentEntity_ReadsBucketsInUseAlone(t *testing.T) {
	table := openTable(t, sharedStore, "(hour(ts), dev) | ts", Options{})
	for i := range 5 { // two years apart
		if err := table.Put(background, key.Columns{"ts": testEpoch.AddDate(2*i, 0, 0), "dev": "busy"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	found, err := table.Last(background, Last{Where: key.Columns{"dev": "silent"}, N: 1})
	if err != nil || len(found.Rows) != 0 || found.Reads != 5 || found.Stop != key.StopFloor {
		t.Errorf("%+v, %v", found, err)
	}
	found, err = table.Last(background, Last{Where: key.Columns{"dev": "busy"}, N: 2})
	if err != nil || len(found.Rows) != 2 || found.Reads != 2 || found.Stop != key.StopEnough {
		t.Errorf("%+v, %v", found, err)
	}
}
