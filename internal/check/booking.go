package check

import (
	"maps"
	"slices"
)

// Claim is one call that tried to book a cabin.
type Claim struct {
	Call
	Cabin    string
	Customer uint64
	// Won tells what an acknowledged call was told: the cabin is theirs, or
	// somebody else's.
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

// Bookings tells whether every cabin has at most one acknowledged winner, who
// owns it in the end, and whether acknowledged <= counter <= acknowledged + unknown.
// Bookings are never given back in this workload.
func Bookings(claims []Claim, end Booked) *Report {
	r := &Report{Calls: len(claims), Reads: 1 + len(end.Owners)}
	winner := map[string]int{}
	maybe := map[string][]uint64{} // customers of unknown claims
	var acknowledged, unknown int64
	for i, c := range claims {
		switch {
		case !r.Admit(i, c.Call):
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

// checkOwners compares who owns the cabins with who was told so.
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
