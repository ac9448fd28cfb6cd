package rows

import "slices"

// pins counts the bytes of pinned rows by generation, so that a stripe knows
// how much it may hold beyond its share. Generations are sorted; those at or
// below settled have been applied and are forgotten.
// Invariant: total is the sum of byGeneration.
type pins struct {
	byGeneration []pin
	total        int
	settled      uint64
}

type pin struct {
	generation uint64
	bytes      int
}

// weight is what a pinned row counts: its memory and its part of the index.
func weight(extent int) int { return extent + indexBytes }

// newest returns the generation under which a row published with g is counted:
// never less than one seen before, so that the list stays sorted. A row may so be
// pinned longer than asked, never shorter.
func (p *pins) newest(g uint64) uint64 {
	if n := len(p.byGeneration); n > 0 {
		return max(g, p.byGeneration[n-1].generation)
	}
	return g
}

func (p *pins) add(generation uint64, bytes int) {
	if generation <= p.settled {
		return
	}
	p.total += bytes
	if n := len(p.byGeneration); n > 0 && p.byGeneration[n-1].generation == generation {
		p.byGeneration[n-1].bytes += bytes
		return
	}
	p.byGeneration = append(p.byGeneration, pin{generation, bytes})
}

// remove takes back what add counted for a row that is replaced.
func (p *pins) remove(generation uint64, bytes int) {
	if generation <= p.settled {
		return
	}
	i := len(p.byGeneration) - 1
	if p.byGeneration[i].generation != generation { // seldom: most rows are replaced young
		i, _ = slices.BinarySearchFunc(p.byGeneration, generation, func(p pin, g uint64) int {
			if p.generation < g {
				return -1
			}
			return int(min(p.generation-g, 1))
		})
	}
	p.byGeneration[i].bytes -= bytes
	p.total -= bytes
}

// settle forgets what has been applied.
func (p *pins) settle(applied uint64) {
	if applied <= p.settled {
		return
	}
	p.settled = applied
	n := 0
	for n < len(p.byGeneration) && p.byGeneration[n].generation <= applied {
		p.total -= p.byGeneration[n].bytes
		n++
	}
	p.byGeneration = slices.Delete(p.byGeneration, 0, n)
}
