package check

import (
	"cmp"
	"slices"
)

// Count is one call on a counter that starts at 0: an addition, or a read if
// Delta is 0.
type Count struct {
	Call
	// Delta is what the call adds.
	Delta int64
	// Told tells that an acknowledged call was told the counter, with its own
	// Delta in it, and Value what it was told.
	Told  bool
	Value int64
}

// Counter tells whether every value that was told lies between what must have
// been added by then and what may have been. If nothing is ever taken away,
// values also never fall in real time, and no two additions are told the same
// one. That is less than linearizability, and takes a sort.
func Counter(calls []Count) *Report {
	r := &Report{Calls: len(calls)}
	var told, added []int // indices of calls
	grows := true
	for i, c := range calls {
		if !r.Admit(i, c.Call) || c.Status == Failed {
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
	boundValues(r, calls, told, added)
	if grows {
		checkGrowth(r, calls, told)
	}
	return r
}

// boundValues compares each value with the sums around its call.
func boundValues(r *Report, calls []Count, told, added []int) {
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
