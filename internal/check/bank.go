package check

import (
	"maps"
	"slices"
)

// Balances is one call that read all accounts of a bank.
type Balances struct {
	Call
	// Of is what each account held.
	Of map[string]int64
}

// BankRules is what holds in a bank whose clients only move money.
type BankRules struct {
	// Accounts is how many there are.
	Accounts int
	// Total is what they hold together, always.
	Total int64
	// Overdraft allows negative balances.
	Overdraft bool
}

// Bank tells whether every acknowledged read shows all accounts, the constant
// sum and, unless the rules allow it, no debt. A read that sums up may still be
// old: what [Lists] checks, this does not.
func Bank(rules BankRules, reads []Balances) *Report {
	r := &Report{Calls: len(reads)}
	for i, read := range reads {
		if !r.Admit(i, read.Call) || read.Status != OK {
			continue
		}
		r.Judged++
		r.Reads++
		var sum int64
		for _, account := range slices.Sorted(maps.Keys(read.Of)) {
			balance := read.Of[account]
			if sum += balance; balance < 0 && !rules.Overdraft {
				r.addf(Overdrawn, []int{i}, "read %d shows %d on %s\n%v", i, balance, account, read.Call)
			}
		}
		switch {
		case len(read.Of) != rules.Accounts:
			r.addf(WrongSum, []int{i}, "read %d shows %d accounts, there are %d: %v\n%v", i, len(read.Of), rules.Accounts, read.Of, read.Call)
		case sum != rules.Total:
			r.addf(WrongSum, []int{i}, "read %d sums to %d, which is %+d off %d: %v\n%v", i, sum, sum-rules.Total, rules.Total, read.Of, read.Call)
		}
	}
	return r
}
