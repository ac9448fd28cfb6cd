package check

import (
	"fmt"
	"testing"
)

// ok is an acknowledged call over an interval.
func ok(invoke, ret int64) Call { return Call{Invoke: invoke, Return: ret, Status: OK} }

func TestABankReadShowsTheConstant(t *testing.T) {
	rules := BankRules{Accounts: 2, Total: 10}
	for _, test := range []struct {
		what  string
		rules BankRules
		read  Balances
		want  Kind
	}{
		{"even", rules, Balances{ok(0, 1), map[string]int64{"a": 5, "b": 5}}, ""},
		{"all on one", rules, Balances{ok(0, 1), map[string]int64{"a": 0, "b": 10}}, ""},
		{"one unit lost", rules, Balances{ok(0, 1), map[string]int64{"a": 5, "b": 4}}, WrongSum},
		{"one unit made", rules, Balances{ok(0, 1), map[string]int64{"a": 5, "b": 6}}, WrongSum},
		{"an account short", rules, Balances{ok(0, 1), map[string]int64{"a": 10}}, WrongSum},
		{"an account more", rules, Balances{ok(0, 1), map[string]int64{"a": 5, "b": 5, "c": 0}}, WrongSum},
		{"debt", rules, Balances{ok(0, 1), map[string]int64{"a": -1, "b": 11}}, Overdrawn},
		{"debt by the rules", BankRules{2, 10, true}, Balances{ok(0, 1), map[string]int64{"a": -1, "b": 11}}, ""},
		{"open", rules, Balances{Call{}, nil}, ""},
		{"failed", rules, Balances{Call{Status: Failed}, nil}, ""},
		{"backwards", rules, Balances{ok(1, 0), nil}, Malformed},
	} {
		t.Run(test.what, func(t *testing.T) { expect(t, Bank(test.rules, []Balances{test.read}), test.want) })
	}
}

// expect wants one anomaly of a kind, or none.
func expect(t *testing.T, r *Report, want Kind) {
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
	won := func(cabin string, customer uint64) Claim { return Claim{ok(0, 9), cabin, customer, true} }
	lost := Claim{ok(0, 9), "a", 7, false}
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
		{"backwards", []Claim{{ok(1, 0), "a", 1, true}}, Booked{0, nil}, Malformed},
	} {
		t.Run(test.what, func(t *testing.T) { expect(t, Bookings(test.claims, test.end), test.want) })
	}
}
