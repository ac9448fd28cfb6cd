package check

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// at is an acknowledged transaction over an interval.
func at(invoke, ret int64, ops ...Op) Txn {
	return Txn{Call{Invoke: invoke, Return: ret, Status: OK}, ops}
}

func failed(invoke, ret int64, ops ...Op) Txn {
	return Txn{Call{Invoke: invoke, Return: ret, Status: Failed}, ops}
}

func open(invoke int64, ops ...Op) Txn {
	return Txn{Call{Invoke: invoke}, ops}
}

// anomalies has one small history of each sort. All transactions are concurrent
// unless it is about time.
var anomalies = []struct {
	what    string
	kind    Kind
	name    string
	history []Txn
}{
	{"one element twice", Duplicate, "", []Txn{at(0, 9, Append("x", 1)), at(0, 9, Read("x", 1, 1))}},
	{"twice off the order", Duplicate, "", []Txn{
		at(0, 9, Append("x", 1)), at(0, 9, Append("x", 2)), at(0, 9, Append("x", 3)),
		at(0, 9, Read("x", 1, 2, 3)), at(0, 9, Read("x", 2, 2))}},
	{"an element of nobody", Garbage, "", []Txn{at(0, 9, Read("x", 7))}},
	{"an element of another key", Garbage, "", []Txn{at(0, 9, Append("y", 7)), at(0, 9, Read("x", 7))}},
	{"never seen again", Lost, "", []Txn{at(0, 1, Append("x", 1)), at(2, 3, Read("x"))}},
	{"from one that failed", G1a, "", []Txn{failed(0, 9, Append("x", 1)), at(0, 9, Read("x", 1))}},
	{"from the midst of another", G1b, "", []Txn{
		at(0, 9, Append("x", 1), Append("x", 2)), at(0, 9, Read("x", 1)), at(0, 9, Read("x", 1, 2))}},
	{"two orders", Forked, "", []Txn{
		at(0, 9, Append("x", 1)), at(0, 9, Append("x", 2)), at(0, 9, Read("x", 1, 2)), at(0, 9, Read("x", 2, 1))}},
	{"appends of one the other way round", Reordered, "", []Txn{
		at(0, 9, Append("x", 1), Append("x", 2)), at(0, 9, Read("x", 2, 1))}},
	{"its own append not seen", Internal, "", []Txn{at(0, 9, Append("x", 1), Read("x"))}},
	{"its own append seen too early", Internal, "", []Txn{at(0, 9, Read("x", 1), Append("x", 1))}},
	{"its own append not the last", Internal, "", []Txn{
		at(0, 9, Append("x", 1), Read("x", 1, 2)), at(0, 9, Append("x", 2))}},
	{"two reads of one differ", Internal, "", []Txn{at(0, 9, Append("x", 1)), at(0, 9, Read("x"), Read("x", 1))}},
	{"writes interleaved", G0, "", []Txn{
		at(0, 9, Append("x", 1), Append("y", 2)), at(0, 9, Append("x", 3), Append("y", 4)),
		at(0, 9, Read("x", 1, 3)), at(0, 9, Read("y", 4, 2))}},
	{"writes interleaved, one not seen", G0, "", []Txn{
		at(0, 9, Append("x", 1), Append("y", 2)), at(0, 9, Append("x", 3), Append("y", 4)),
		at(0, 9, Read("x", 1)), at(0, 9, Read("y", 4, 2))}},
	{"each read the other's", G1c, "", []Txn{
		at(0, 9, Append("x", 1), Read("y", 2)), at(0, 9, Append("y", 2), Read("x", 1))}},
	{"both read, then both appended", GSingle, "lost update", []Txn{
		at(0, 9, Read("x"), Append("x", 1)), at(0, 9, Read("x"), Append("x", 2)), at(0, 9, Read("x", 1, 2))}},
	{"half of another", GSingle, "fractured read", []Txn{
		at(0, 9, Append("x", 1), Append("y", 2)), at(0, 9, Read("x", 1), Read("y"))}},
	{"half of another that is open", GSingle, "fractured read", []Txn{
		open(0, Append("x", 1), Append("y", 2)), at(5, 9, Read("x", 1), Read("y"))}},
	{"each read what the other wrote", G2, "write skew", []Txn{
		at(0, 9, Read("x"), Append("y", 1)), at(0, 9, Read("y"), Append("x", 2)), at(0, 9, Read("x", 2), Read("y", 1))}},
	{"the same, never read", G2, "write skew", []Txn{
		at(0, 9, Read("x"), Append("y", 1)), at(0, 9, Read("y"), Append("x", 2))}},
	{"two readers, two orders", G2, "long fork", []Txn{
		at(0, 9, Append("x", 1)), at(0, 9, Append("y", 2)), at(0, 9, Read("x", 1), Read("y")), at(0, 9, Read("x"), Read("y", 2))}},
	{"a later write in front", G0RealTime, "", []Txn{
		at(0, 1, Append("x", 1)), at(2, 3, Append("x", 2)), at(0, 9, Read("x", 2, 1))}},
	{"a read from the future", G1cRealTime, "", []Txn{at(0, 1, Read("x", 1)), at(2, 3, Append("x", 1))}},
	{"an old read", GSingleRealTime, "stale read", []Txn{
		at(0, 1, Append("x", 1)), at(2, 3, Read("x")), at(0, 9, Read("x", 1))}},
	{"older than somebody saw", GSingleRealTime, "stale read", []Txn{
		open(0, Append("x", 1)), at(2, 3, Read("x", 1)), at(4, 5, Read("x"))}},
	{"an old read by way of another", GSingleRealTime, "stale read", []Txn{
		at(0, 1, Append("x", 1)), at(2, 3, Append("y", 2)), at(0, 9, Read("x"), Read("y", 2))}},
	{"two old reads", G2RealTime, "", []Txn{
		at(0, 1, Append("y", 1)), at(2, 3, Read("x")), at(0, 9, Read("y"), Append("x", 2))}},
}

func TestEachAnomalyIsFoundAndNamed(t *testing.T) {
	for _, test := range anomalies {
		t.Run(test.what, func(t *testing.T) {
			if explainable(test.history) {
				t.Fatal("the test is wrong: there is an order")
			}
			for range 2 {
				r := Lists(test.history)
				if !r.Has(test.kind) || !r.Named(test.name) || !errors.Is(r.Err(), ErrAnomaly) {
					t.Fatalf("want %s (%s), got %v", test.kind, test.name, r)
				}
				if err := sound(test.history, r); err != nil {
					t.Error(err)
				}
				slices.Reverse(test.history) // what it finds does not depend on the order of the notes
			}
		})
	}
}

func TestWhatIsPossibleIsNoAnomaly(t *testing.T) {
	for _, test := range []struct {
		what    string
		history []Txn
	}{
		{"nothing", nil},
		{"an open append that came", []Txn{open(0, Append("x", 1)), at(5, 6, Read("x", 1))}},
		{"an open append that came late", []Txn{open(0, Append("x", 1)), at(5, 6, Read("x")), at(7, 8, Read("x", 1))}},
		{"an open append that never came", []Txn{open(0, Append("x", 1)), at(5, 6, Read("x"))}},
		{"a failed one with an odd read", []Txn{failed(0, 1, Read("x", 9)), at(5, 6, Read("x"))}},
		{"an open one with an odd read", []Txn{open(0, Read("x", 9), Append("x", 1)), at(5, 6, Read("x"))}},
		{"a touch is no order", []Txn{at(0, 5, Append("x", 1)), at(5, 6, Read("x"))}},
		{"its own appends in between", []Txn{
			at(0, 1, Append("x", 1)), at(2, 3, Read("x", 1), Append("x", 2), Read("x", 1, 2), Append("x", 3), Read("x", 1, 2, 3))}},
		{"appends that nobody read", []Txn{at(0, 9, Append("x", 1), Append("y", 2)), at(0, 9, Append("y", 3), Append("x", 4))}},
	} {
		if r := Lists(test.history); !r.OK() || !explainable(test.history) {
			t.Errorf("%s: %v", test.what, r)
		}
	}
}

func TestAHistoryThatCannotBeIsRefused(t *testing.T) {
	for _, test := range []struct {
		what    string
		history []Txn
	}{
		{"returned", []Txn{at(5, 4)}},
		{"status", []Txn{{Call: Call{Status: 3}}}},
		{"unique", []Txn{at(0, 1, Append("x", 1)), at(0, 1, Append("y", 1))}},
	} {
		r := Lists(test.history)
		if err := r.Err(); !errors.Is(err, ErrHistory) || !strings.Contains(err.Error(), test.what) {
			t.Errorf("%s: %v", test.what, err)
		}
	}
}

func TestAReportKeepsFewAndCountsAll(t *testing.T) {
	var h []Txn
	for i := range int64(100) {
		h = append(h, at(i, i, Read("x", uint64(i)+1)))
	}
	h = append(h, at(0, 1, Append("y", 1000)), at(2, 3, Read("y")))
	r := Lists(h)
	if r.Counts[Garbage] < 90 || r.Counts[Lost] != 1 || len(r.Anomalies) > 3*keep+2 {
		t.Errorf("%v", r)
	}
	if !slices.IsSortedFunc(r.Anomalies, func(a, b Anomaly) int { return rank(a.Kind) - rank(b.Kind) }) {
		t.Errorf("not the worst first: %v", r)
	}
}
