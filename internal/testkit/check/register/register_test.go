package register

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/testkit/check"
	"github.com/cleavekv/cleave/internal/testkit/tally"
)

func okCall(invoke, ret int64) check.Call {
	return check.Call{Invoke: invoke, Return: ret, Status: check.OK}
}

func getCall(c check.Call, v Value) Call { return Call{Call: c, Key: "x", Kind: Get, Got: v} }
func setCall(c check.Call, v Value) Call { return Call{Call: c, Key: "x", Kind: Set, New: v} }
func deleteCall(c check.Call, done bool) Call {
	return Call{Call: c, Key: "x", Kind: Delete, Done: done}
}
func swapCall(c check.Call, from, to Value, done bool) Call {
	return Call{Call: c, Key: "x", Kind: Swap, Old: from, New: to, Done: done}
}

func TestARegisterAnswersInSomeOrder(t *testing.T) {
	open, failed := check.Call{}, check.Call{Status: check.Failed}
	for _, test := range []struct {
		what  string
		calls []Call
		want  check.Kind
	}{
		{"absent at first", []Call{getCall(okCall(0, 1), 0)}, ""},
		{"not absent at first", []Call{getCall(okCall(0, 1), 1)}, check.NotLinearizable},
		{"set, get", []Call{setCall(okCall(0, 1), 1), getCall(okCall(2, 3), 1)}, ""},
		{"stale", []Call{setCall(okCall(0, 1), 1), getCall(okCall(2, 3), 0)}, check.NotLinearizable},
		{"during", []Call{setCall(okCall(0, 5), 1), getCall(okCall(2, 3), 0)}, ""},
		{"back and forth", []Call{setCall(okCall(0, 9), 1), getCall(okCall(2, 3), 1), getCall(okCall(4, 5), 0)}, check.NotLinearizable},
		{"open, done", []Call{setCall(open, 1), getCall(okCall(2, 3), 1)}, ""},
		{"open, not done", []Call{setCall(open, 1), getCall(okCall(2, 3), 0)}, ""},
		{"open, done late", []Call{setCall(open, 1), getCall(okCall(1000, 1001), 0), getCall(okCall(1002, 1003), 1)}, ""},
		{"open, undone", []Call{setCall(open, 1), getCall(okCall(2, 3), 1), getCall(okCall(4, 5), 0)}, check.NotLinearizable},
		{"failed", []Call{setCall(failed, 1), getCall(okCall(2, 3), 1)}, check.NotLinearizable},
		{"swap", []Call{swapCall(okCall(0, 1), 0, 1, true), swapCall(okCall(2, 3), 0, 2, false), getCall(okCall(4, 5), 1)}, ""},
		{"swap twice", []Call{swapCall(okCall(0, 9), 0, 1, true), swapCall(okCall(0, 9), 0, 2, true)}, check.NotLinearizable},
		{"swap refused", []Call{swapCall(okCall(0, 9), 0, 1, false)}, check.NotLinearizable},
		{"open swap, done", []Call{swapCall(open, 0, 1, false), getCall(okCall(4, 5), 1)}, ""},
		{"open swap, not done", []Call{swapCall(open, 0, 1, false), getCall(okCall(4, 5), 0)}, ""},
		{"open swap of another", []Call{swapCall(open, 3, 1, false), getCall(okCall(4, 5), 1)}, check.NotLinearizable},
		{"delete", []Call{setCall(okCall(0, 1), 1), deleteCall(okCall(2, 3), true), deleteCall(okCall(4, 5), false), getCall(okCall(6, 7), 0)}, ""},
		{"delete what is not there", []Call{deleteCall(okCall(2, 3), true)}, check.NotLinearizable},
		{"resurrected", []Call{setCall(okCall(0, 1), 1), deleteCall(okCall(2, 3), true), getCall(okCall(6, 7), 1)}, check.NotLinearizable},
		{"open read", []Call{getCall(open, 9)}, ""},
		{"returned before", []Call{getCall(okCall(1, 0), 0)}, check.Malformed},
		{"no such kind", []Call{{Kind: 9}}, check.Malformed},
		{"too many", make([]Call, MaxCalls+1), check.Malformed},
	} {
		t.Run(test.what, func(t *testing.T) {
			if test.what == "too many" {
				for i := range test.calls {
					test.calls[i] = setCall(okCall(int64(i), int64(i)), 1)
				}
			}
			r := Check(test.calls)
			if r.OK() != (test.want == "") || test.want != "" && r.Counts[test.want] != 1 {
				t.Errorf("want %q, got %v", test.want, r)
			}
		})
	}
}

func TestAReasonIsGiven(t *testing.T) {
	r := Check([]Call{setCall(okCall(0, 1), 1), getCall(okCall(2, 3), 0), getCall(okCall(4, 5), 1)})
	err := r.Err()
	if !errors.Is(err, check.ErrAnomaly) || !strings.Contains(err.Error(), "can follow\n  call 1 is client 0 [2,3] ok: get x -> 0") {
		t.Error(err)
	}
}

func TestASearchThatIsTooLongIsUndecided(t *testing.T) {
	var calls []Call
	var on []int
	for i := range 100 {
		calls = append(calls, setCall(okCall(0, 9), Value(i+1)))
		on = append(on, i)
	}
	calls, on = append(calls, getCall(okCall(10, 11), 1000)), append(on, 100)
	r := new(check.Report)
	checkKey(r, "x", calls, on, 10_000)
	if r.Counts[check.Undecided] != 1 || len(r.Counts) != 1 {
		t.Errorf("got %v", r)
	}
}

// TestRightRegistersPassAndAChangedAnswerIsFound runs calls at one instant each
// within their intervals, then changes one answer to a value that was never written.
func TestRightRegistersPassAndAChangedAnswerIsFound(t *testing.T) {
	var counts tally.Counts
	first, n := rand.Uint64(), uint64(200)
	if s := os.Getenv("CLEAVE_SEED"); s != "" {
		if _, err := fmt.Sscan(s, &first); err != nil {
			t.Fatalf("CLEAVE_SEED is %q: use a number", s)
		}
		n = 1
	} else if os.Getenv("CLEAVE_SOAK") == "1" {
		n *= 100
	}
	for i := range n {
		seed := first + i
		rng := rand.New(rand.NewPCG(seed, 0))
		held := map[string]Value{}
		var calls []Call
		var reads []int
		for now := range int64(1 + rng.IntN(200)) {
			c := Call{
				Call: check.Call{Invoke: now - rng.Int64N(6), Return: now + rng.Int64N(6), Status: check.OK},
				Key:  fmt.Sprint(rng.IntN(3)), Kind: Kind(rng.IntN(4)),
				Old: Value(rng.IntN(4)), New: Value(1 + rng.IntN(3)),
			}
			c.Got = held[c.Key]
			c.Done = c.Kind == Swap && c.Got == c.Old || c.Kind == Delete && c.Got != 0
			_, after := c.step(held[c.Key])
			if roll := rng.IntN(30); roll == 0 {
				c.Status = check.Failed
			} else if roll == 1 {
				c.Status = check.Unknown
			}
			if c.Status == check.OK || c.Status == check.Unknown && rng.IntN(2) == 0 {
				held[c.Key] = after
			}
			if c.Status == check.OK && c.Kind == Get {
				reads = append(reads, len(calls))
			}
			calls = append(calls, c)
		}
		if err := Check(calls).Err(); err != nil {
			t.Fatalf("%v\nrun again with: CLEAVE_SEED=%d go test ./internal/testkit/check/register", err, seed)
		}
		counts.Add("right registers", 1)
		if len(reads) == 0 {
			continue
		}
		calls[reads[rng.IntN(len(reads))]].Got = 9
		if r := Check(calls); !r.Has(check.NotLinearizable) {
			t.Fatalf("a read of what nobody wrote is not found: %v\nrun again with: CLEAVE_SEED=%d go test ./internal/testkit/check/register", r, seed)
		}
		counts.Add("wrong registers", 1)
	}
	counts.Log(t, "right registers", "wrong registers")
}
