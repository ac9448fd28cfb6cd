package check

import (
	"cmp"
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

// Bank reports whether every acknowledged read shows all accounts, the constant
// sum and, unless the rules allow it, no debt. A read that sums up may still be
// old: what [Lists] checks, this does not.
func Bank(rules BankRules, reads []Balances) *Report {
	r := &Report{Calls: len(reads)}
	for i, read := range reads {
		if !r.CheckCall(i, read.Call) || read.Status != OK {
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

// Claim is one call that tried to book a cabin.
type Claim struct {
	Call
	Cabin    string
	Customer uint64
	// Won is the result of an acknowledged call: the cabin is theirs, or
	// another client's.
	Won bool
}

// Booked is what was read when all clients had stopped.
type Booked struct {
	// Counter is how many bookings the store itself counted.
	Counter int64
	// Owners has the customer of each cabin that is booked. Nil leaves owners
	// out of the verdict.
	Owners map[string]uint64
}

// Bookings reports whether every cabin has at most one acknowledged winner, which
// owns it in the end, and whether acknowledged <= counter <= acknowledged + unknown.
// Bookings are never given back in this workload.
func Bookings(claims []Claim, end Booked) *Report {
	r := &Report{Calls: len(claims), Reads: 1 + len(end.Owners)}
	winner := map[string]int{}
	maybe := map[string][]uint64{} // customers of unknown claims
	var acknowledged, unknown int64
	for i, c := range claims {
		switch {
		case !r.CheckCall(i, c.Call):
		case c.Status == Unknown:
			r.Judged++
			unknown++
			maybe[c.Cabin] = append(maybe[c.Cabin], c.Customer)
		case c.Status == OK && c.Won:
			r.Judged++
			acknowledged++
			if w, ok := winner[c.Cabin]; ok {
				r.addf(TwoWinners, []int{w, i}, "cabin %s was given to customer %d by claim %d and to customer %d by claim %d\n%v\n%v",
					c.Cabin, claims[w].Customer, w, c.Customer, i, claims[w].Call, c.Call)
				continue
			}
			winner[c.Cabin] = i
		}
	}
	if end.Counter < acknowledged || end.Counter > acknowledged+unknown {
		r.addf(OutOfBounds, nil, "the counter says %d bookings; %d were acknowledged and %d more may have come to be",
			end.Counter, acknowledged, unknown)
	}
	if end.Owners != nil {
		checkOwners(r, claims, end.Owners, winner, maybe)
	}
	return r
}

// checkOwners compares the owners of the cabins with the acknowledged winners.
func checkOwners(r *Report, claims []Claim, owners map[string]uint64, winner map[string]int, maybe map[string][]uint64) {
	for _, cabin := range slices.Sorted(maps.Keys(winner)) {
		w := winner[cabin]
		owner, ok := owners[cabin]
		switch {
		case !ok:
			r.addf(Lost, []int{w}, "cabin %s was given to customer %d by claim %d, and nobody has it\n%v",
				cabin, claims[w].Customer, w, claims[w].Call)
		case owner != claims[w].Customer:
			r.addf(TwoWinners, []int{w}, "cabin %s was given to customer %d by claim %d, and customer %d has it\n%v",
				cabin, claims[w].Customer, w, owner, claims[w].Call)
		}
	}
	for _, cabin := range slices.Sorted(maps.Keys(owners)) {
		if _, ok := winner[cabin]; !ok && !slices.Contains(maybe[cabin], owners[cabin]) {
			r.addf(Garbage, nil, "customer %d has cabin %s, but no claim of theirs won or may have", owners[cabin], cabin)
		}
	}
}

// Count is one call on a counter that starts at 0: an addition, or a read if
// Delta is 0.
type Count struct {
	Call
	// Delta is what the call adds.
	Delta int64
	// Told reports whether an acknowledged call returned the counter, with its own
	// Delta in it, and Value is that result.
	Told  bool
	Value int64
}

// Counter reports whether every value that was returned lies between what must have
// been added by then and what may have been. If nothing is ever taken away,
// values also never fall in real time, and no two additions return the same
// one. That is less than linearizability, and takes a sort.
func Counter(calls []Count) *Report {
	r := &Report{Calls: len(calls)}
	var told, added []int // indices of calls
	grows := true
	for i, c := range calls {
		if !r.CheckCall(i, c.Call) || c.Status == Failed {
			continue
		}
		r.Judged++
		if c.Delta != 0 {
			added = append(added, i)
			grows = grows && c.Delta > 0
		}
		if c.Status == OK && c.Told {
			told = append(told, i)
		}
	}
	r.Reads = len(told)
	checkBounds(r, calls, told, added)
	if grows {
		checkGrowth(r, calls, told)
	}
	return r
}

// checkBounds compares each value with the sums around its call.
func checkBounds(r *Report, calls []Count, told, added []int) {
	// may is the least and the most that additions invoked by an instant can
	// come to; must is what has become of the possible when an addition returned.
	byInvoke := slices.SortedStableFunc(slices.Values(added), func(a, b int) int { return cmp.Compare(calls[a].Invoke, calls[b].Invoke) })
	byReturn := slices.DeleteFunc(slices.Clone(added), func(i int) bool { return calls[i].Status != OK })
	slices.SortStableFunc(byReturn, func(a, b int) int { return cmp.Compare(calls[a].Return, calls[b].Return) })
	mayLow, mayHigh := make([]int64, len(byInvoke)+1), make([]int64, len(byInvoke)+1)
	for n, i := range byInvoke {
		mayLow[n+1] = mayLow[n] + min(0, calls[i].Delta)
		mayHigh[n+1] = mayHigh[n] + max(0, calls[i].Delta)
	}
	mustLow, mustHigh := make([]int64, len(byReturn)+1), make([]int64, len(byReturn)+1)
	for n, i := range byReturn {
		mustLow[n+1] = mustLow[n] + max(0, calls[i].Delta)
		mustHigh[n+1] = mustHigh[n] + min(0, calls[i].Delta)
	}
	for _, i := range told {
		c := calls[i]
		begun, _ := slices.BinarySearchFunc(byInvoke, c.Return, func(j int, at int64) int {
			return cmp.Or(cmp.Compare(calls[j].Invoke, at), -1) // behind equal ones
		})
		ended, _ := slices.BinarySearchFunc(byReturn, c.Invoke, func(j int, at int64) int {
			return cmp.Compare(calls[j].Return, at)
		})
		// Its own delta is among the possible; it is certain here.
		low := mayLow[begun] + mustLow[ended] + max(0, c.Delta)
		high := mayHigh[begun] + mustHigh[ended] + min(0, c.Delta)
		if c.Value < low || c.Value > high {
			r.addf(OutOfBounds, []int{i}, "call %d was told %d; it must lie between %d and %d\n%v", i, c.Value, low, high, c.Call)
		}
	}
}

// checkGrowth looks at values of a counter that only grows.
func checkGrowth(r *Report, calls []Count, told []int) {
	adder := map[int64]int{}
	for _, i := range told {
		if calls[i].Delta == 0 {
			continue
		}
		if j, ok := adder[calls[i].Value]; ok {
			r.addf(Duplicate, []int{j, i}, "calls %d and %d both brought the counter to %d: one addition is lost\n%v\n%v",
				j, i, calls[i].Value, calls[j].Call, calls[i].Call)
		}
		adder[calls[i].Value] = i
	}
	byReturn := slices.SortedStableFunc(slices.Values(told), func(a, b int) int { return cmp.Compare(calls[a].Return, calls[b].Return) })
	byInvoke := slices.SortedStableFunc(slices.Values(told), func(a, b int) int { return cmp.Compare(calls[a].Invoke, calls[b].Invoke) })
	most, done := none, 0 // the call with the highest value that has returned
	for _, i := range byInvoke {
		for ; done < len(byReturn) && calls[byReturn[done]].Return < calls[i].Invoke; done++ {
			if most == none || calls[byReturn[done]].Value > calls[most].Value {
				most = byReturn[done]
			}
		}
		if most != none && calls[i].Value < calls[most].Value {
			r.addf(Reordered, []int{most, i}, "call %d was told %d, and then call %d was told %d\n%v\n%v",
				most, calls[most].Value, i, calls[i].Value, calls[most].Call, calls[i].Call)
		}
	}
}
