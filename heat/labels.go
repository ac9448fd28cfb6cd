package heat

import (
	"cmp"
	"slices"
	"strings"
)

// NameCount is how many operations a command or a client is known to have sent.
type NameCount struct {
	Name string
	// Ops is at most the true number: what was seen of rare names is taken off all of them.
	Ops float64
}

// nameCounts are the most frequent names of the operations of a key, by the algorithm of Misra and Gries. An unused one
// is empty.
type nameCounts [keptNames]NameCount

func (c *nameCounts) add(name string, n float64) {
	if name == "" {
		return
	}
	if len(name) > maxNameBytes {
		name = name[:maxNameBytes]
	}
	least := 0
	for i := range c {
		if c[i].Name == name {
			c[i].Ops += n
			return
		}
		if c[i].Ops < c[least].Ops {
			least = i
		}
	}
	if taken := min(n, c[least].Ops); taken > 0 {
		for i := range c {
			c[i].Ops -= taken
		}
		n -= taken
	}
	if n > 0 {
		c[least] = NameCount{strings.Clone(name), n}
	}
}

// merge adds the counts of others and takes off all what the first name that has no room has.
func (c *nameCounts) merge(o *nameCounts) {
	var room [2 * keptNames]NameCount
	all := room[:0]
	for _, list := range []*nameCounts{c, o} {
		for _, n := range list {
			i := slices.IndexFunc(all, func(a NameCount) bool { return a.Name == n.Name })
			switch {
			case n.Ops <= 0:
			case i >= 0:
				all[i].Ops += n.Ops
			default:
				all = append(all, n)
			}
		}
	}
	slices.SortFunc(all, func(a, b NameCount) int { return cmp.Or(cmp.Compare(b.Ops, a.Ops), cmp.Compare(a.Name, b.Name)) })
	taken := 0.0
	if len(all) > keptNames {
		taken = all[keptNames].Ops
	}
	*c = nameCounts{}
	for i := range min(len(all), keptNames) {
		if n := all[i].Ops - taken; n > 0 {
			c[i] = NameCount{all[i].Name, n}
		}
	}
}

func (c *nameCounts) scale(factor float64) {
	for i := range c {
		c[i].Ops *= factor
	}
}

// list returns the names, the most frequent first.
func (c *nameCounts) list() []NameCount {
	var all []NameCount
	for _, n := range c {
		if n.Ops > 0 {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b NameCount) int { return cmp.Or(cmp.Compare(b.Ops, a.Ops), cmp.Compare(a.Name, b.Name)) })
	return all
}
