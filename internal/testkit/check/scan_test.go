package check

import (
	"math/rand/v2"
	"testing"

	"github.com/cleavekv/cleave/internal/testkit/tally"
)

func putKey(c Call, k string) Change    { return Change{c, k, false} }
func deleteKey(c Call, k string) Change { return Change{c, k, true} }

func TestAScanListsWhatIsThere(t *testing.T) {
	a, b, c := putKey(okCall(0, 1), "a"), putKey(okCall(0, 1), "b"), putKey(okCall(0, 1), "c")
	all := []Change{a, b, c}
	for _, test := range []struct {
		what    string
		changes []Change
		scan    Scan
		want    Kind
	}{
		{"all", all, Scan{Keys: []string{"a", "b", "c"}}, ""},
		{"backwards", all, Scan{Keys: []string{"c", "b", "a"}, Reverse: true}, ""},
		{"a part", all, Scan{Start: "b", End: "c", Keys: []string{"b"}}, ""},
		{"the first", all, Scan{Limit: 2, Keys: []string{"a", "b"}}, ""},
		{"the last", all, Scan{Limit: 2, Reverse: true, Keys: []string{"c", "b"}}, ""},
		{"one is missing", all, Scan{Keys: []string{"a", "c"}}, Lost},
		{"one is missing below the limit", all, Scan{Limit: 2, Keys: []string{"a", "c"}}, Lost},
		{"one is missing above the limit", all, Scan{Limit: 2, Reverse: true, Keys: []string{"c", "a"}}, Lost},
		{"too few", all, Scan{Limit: 3, Keys: []string{"a", "b"}}, Lost},
		{"too many", all, Scan{Limit: 2, Keys: []string{"a", "b", "c"}}, Stray},
		{"twice", all, Scan{Keys: []string{"a", "b", "b", "c"}}, Duplicate},
		{"out of order", all, Scan{Keys: []string{"a", "c", "b"}}, Reordered},
		{"out of order, backwards", all, Scan{Keys: []string{"c", "a", "b"}, Reverse: true}, Reordered},
		{"outside", all, Scan{Start: "b", Keys: []string{"a", "b", "c"}}, Stray},
		{"at the end", all, Scan{End: "c", Keys: []string{"a", "b", "c"}}, Stray},
		{"of nobody", all, Scan{Keys: []string{"a", "b", "c", "d"}}, Stray},
		{"not yet put", []Change{putKey(okCall(21, 22), "a")}, Scan{Keys: []string{"a"}}, Stray},
		{"being put", []Change{putKey(okCall(15, 22), "a")}, Scan{Keys: []string{"a"}}, ""},
		{"open", []Change{putKey(Call{}, "a")}, Scan{Keys: []string{"a"}}, ""},
		{"open, not there", []Change{putKey(Call{}, "a")}, Scan{}, ""},
		{"failed", []Change{putKey(Call{Status: Failed}, "a")}, Scan{Keys: []string{"a"}}, Stray},
		{"deleted", []Change{a, deleteKey(okCall(2, 3), "a")}, Scan{Keys: []string{"a"}}, Stray},
		{"deleted and gone", []Change{a, deleteKey(okCall(2, 3), "a")}, Scan{}, ""},
		{"deleted meanwhile", []Change{a, deleteKey(okCall(0, 3), "a")}, Scan{Keys: []string{"a"}}, ""},
		{"deleted and put again", []Change{a, deleteKey(okCall(2, 3), "a"), putKey(okCall(4, 5), "a")}, Scan{}, Lost},
		{"deleted perhaps", []Change{a, deleteKey(Call{Invoke: 2}, "a"), putKey(okCall(4, 5), "a")}, Scan{}, ""},
	} {
		t.Run(test.what, func(t *testing.T) {
			test.scan.Call = okCall(10, 20)
			checkKind(t, Scans(test.changes, []Scan{test.scan}), test.want)
		})
	}
	checkKind(t, Scans(all, []Scan{{Call: Call{}}, {Call: Call{Status: Failed}}}), "")
	checkKind(t, Scans([]Change{putKey(okCall(1, 0), "a")}, nil), Malformed)
	checkKind(t, Scans(nil, []Scan{{Call: okCall(1, 0)}}), Malformed)
}

// TestAKeyMustBeThereIfAllOrdersHaveIt compares with a trial of all orders of
// a few changes and a scan.
func TestAKeyMustBeThereIfAllOrdersHaveIt(t *testing.T) {
	var counts tally.Counts
	runSeeds(t, 20_000, func(rng *rand.Rand) {
		call := func() Call {
			from := rng.Int64N(12)
			return Call{Invoke: from, Return: from + rng.Int64N(6), Status: Status(min(rng.IntN(5), 1))}
		}
		var changes []Change
		for range rng.IntN(5) {
			changes = append(changes, Change{call(), "a", rng.IntN(2) == 0})
		}
		scan := call()
		scan.Status = OK
		with, without := tryOrders(changes, scan, make([]bool, len(changes)), false)
		if mustHave(changes, scan) == without || mustMiss(changes, scan) == with {
			t.Errorf("there: %v, not there: %v, scan %v, changes %v", with, without, scan, formatChanges(append(changes, Change{})))
		}
		switch {
		case !without:
			counts.Add("keys that must be there", 1)
		case !with:
			counts.Add("keys that must not be there", 1)
		default:
			counts.Add("keys that may be there", 1)
		}
	})
	logCounts(t, &counts, "keys that must be there", "keys that must not be there", "keys that may be there")
}

// tryOrders reports whether there is an order in which the scan sees the key, and
// one in which it does not.
func tryOrders(changes []Change, scan Call, placed []bool, there bool) (with, without bool) {
	ready := func(c Call) bool {
		for i, other := range changes {
			if !placed[i] && other.isBefore(c) {
				return false
			}
		}
		return true
	}
	if ready(scan) {
		with, without = there, !there
	}
	for i, c := range changes {
		if !placed[i] && ready(c.Call) && !scan.isBefore(c.Call) {
			placed[i] = true
			w, wo := tryOrders(changes, scan, placed, !c.Delete)
			with, without = with || w, without || wo
			placed[i] = false
		}
	}
	return with, without
}
