package check

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// okCall is an acknowledged call over an interval.
func okCall(invoke, ret int64) Call { return Call{Invoke: invoke, Return: ret, Status: OK} }

func TestABankReadShowsTheConstant(t *testing.T) {
	rules := BankRules{Accounts: 2, Total: 10}
	for _, test := range []struct {
		what  string
		rules BankRules
		read  Balances
		want  Kind
	}{
		{"even", rules, Balances{okCall(0, 1), map[string]int64{"a": 5, "b": 5}}, ""},
		{"all on one", rules, Balances{okCall(0, 1), map[string]int64{"a": 0, "b": 10}}, ""},
		{"one unit lost", rules, Balances{okCall(0, 1), map[string]int64{"a": 5, "b": 4}}, WrongSum},
		{"one unit made", rules, Balances{okCall(0, 1), map[string]int64{"a": 5, "b": 6}}, WrongSum},
		{"an account short", rules, Balances{okCall(0, 1), map[string]int64{"a": 10}}, WrongSum},
		{"an account more", rules, Balances{okCall(0, 1), map[string]int64{"a": 5, "b": 5, "c": 0}}, WrongSum},
		{"debt", rules, Balances{okCall(0, 1), map[string]int64{"a": -1, "b": 11}}, Overdrawn},
		{"debt by the rules", BankRules{2, 10, true}, Balances{okCall(0, 1), map[string]int64{"a": -1, "b": 11}}, ""},
		{"open", rules, Balances{Call{}, nil}, ""},
		{"failed", rules, Balances{Call{Status: Failed}, nil}, ""},
		{"backwards", rules, Balances{okCall(1, 0), nil}, Malformed},
	} {
		t.Run(test.what, func(t *testing.T) { checkKind(t, Bank(test.rules, []Balances{test.read}), test.want) })
	}
}

// checkKind wants one anomaly of a kind, or none.
func checkKind(t *testing.T, r *Report, want Kind) {
	t.Helper()
	counts := map[Kind]int{}
	if want != "" {
		counts[want] = 1
	}
	if fmt.Sprint(r.Counts) != fmt.Sprint(counts) {
		t.Errorf("want %q, got %v", want, r)
	}
}

func TestACabinHasOneWinner(t *testing.T) {
	won := func(cabin string, customer uint64) Claim { return Claim{okCall(0, 9), cabin, customer, true} }
	lost := Claim{okCall(0, 9), "a", 7, false}
	maybe := Claim{Call{}, "a", 8, false}
	for _, test := range []struct {
		what   string
		claims []Claim
		end    Booked
		want   Kind
	}{
		{"one", []Claim{won("a", 1), lost}, Booked{1, map[string]uint64{"a": 1}}, ""},
		{"one each", []Claim{won("a", 1), won("b", 1)}, Booked{2, nil}, ""},
		{"two", []Claim{won("a", 1), won("a", 2)}, Booked{2, nil}, TwoWinners},
		{"the same twice", []Claim{won("a", 1), won("a", 1)}, Booked{2, nil}, TwoWinners},
		{"another has it", []Claim{won("a", 1), lost}, Booked{1, map[string]uint64{"a": 7}}, TwoWinners},
		{"nobody has it", []Claim{won("a", 1)}, Booked{1, map[string]uint64{}}, Lost},
		{"open and done", []Claim{maybe}, Booked{1, map[string]uint64{"a": 8}}, ""},
		{"open and not done", []Claim{maybe}, Booked{0, map[string]uint64{}}, ""},
		{"a loser has it", []Claim{lost, maybe}, Booked{1, map[string]uint64{"a": 7}}, Garbage},
		{"counted too few", []Claim{won("a", 1), maybe}, Booked{0, nil}, OutOfBounds},
		{"counted too many", []Claim{won("a", 1), maybe, lost}, Booked{3, nil}, OutOfBounds},
		{"failed counts for nothing", []Claim{{Call{Status: Failed}, "a", 1, true}}, Booked{1, nil}, OutOfBounds},
		{"backwards", []Claim{{okCall(1, 0), "a", 1, true}}, Booked{0, nil}, Malformed},
	} {
		t.Run(test.what, func(t *testing.T) { checkKind(t, Bookings(test.claims, test.end), test.want) })
	}
}

func TestACounterLiesBetweenWhatMustAndWhatMayBe(t *testing.T) {
	add := func(invoke, ret, delta int64) Count { return Count{Call: okCall(invoke, ret), Delta: delta} }
	told := func(invoke, ret, delta, value int64) Count {
		return Count{Call: okCall(invoke, ret), Delta: delta, Told: true, Value: value}
	}
	maybe := Count{Call: Call{Invoke: 0}, Delta: 10}
	for _, test := range []struct {
		what  string
		calls []Count
		want  Kind
	}{
		{"nothing", []Count{told(0, 1, 0, 0)}, ""},
		{"what is done counts", []Count{add(0, 1, 2), told(2, 3, 0, 2)}, ""},
		{"and is missed", []Count{add(0, 1, 2), told(2, 3, 0, 0)}, OutOfBounds},
		{"what runs may count", []Count{add(0, 5, 2), told(2, 3, 0, 2)}, ""},
		{"or not", []Count{add(0, 5, 2), told(2, 3, 0, 0)}, ""},
		{"what begins at the end may count", []Count{add(3, 5, 2), told(2, 3, 0, 2)}, ""},
		{"what is to come does not", []Count{add(4, 5, 2), told(2, 3, 0, 2)}, OutOfBounds},
		{"open, done", []Count{maybe, told(2, 3, 0, 10)}, ""},
		{"open, not done", []Count{maybe, told(2, 3, 0, 0)}, ""},
		{"open, done twice", []Count{maybe, told(2, 3, 0, 20)}, OutOfBounds},
		{"failed", []Count{{Call: Call{Status: Failed}, Delta: 1}, told(2, 3, 0, 1)}, OutOfBounds},
		{"less", []Count{add(0, 1, 5), add(2, 3, -2), told(4, 5, 0, 3)}, ""},
		{"less is missed", []Count{add(0, 1, 5), add(2, 3, -2), told(4, 5, 0, 5)}, OutOfBounds},
		{"its own counts", []Count{told(0, 1, 3, 0)}, OutOfBounds},
		{"one is lost", []Count{told(0, 9, 1, 1), told(0, 9, 1, 1)}, Duplicate},
		{"it falls", []Count{maybe, told(1, 2, 0, 10), told(3, 4, 0, 0)}, Reordered},
		{"backwards", []Count{told(1, 0, 0, 0)}, Malformed},
	} {
		t.Run(test.what, func(t *testing.T) { checkKind(t, Counter(test.calls), test.want) })
	}
}

func TestARightCounterHasNoAnomaly(t *testing.T) {
	runSeeds(t, 2000, func(rng *rand.Rand) {
		var calls []Count
		var value int64
		lowest := rng.Int64N(2) - 1
		var now int64
		for range 1 + rng.IntN(60) {
			now += rng.Int64N(3)
			c := Count{Call: okCall(now-rng.Int64N(10), now+rng.Int64N(10)), Delta: lowest*3 + rng.Int64N(4), Told: rng.IntN(2) == 0}
			if c.Status = Status(rng.IntN(3)); c.Status == OK || c.Status == Unknown && rng.IntN(2) == 0 {
				value += c.Delta
			}
			c.Value = value
			calls = append(calls, c)
		}
		rng.Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
		if err := Counter(calls).Err(); err != nil {
			t.Error(err)
		}
	})
}
