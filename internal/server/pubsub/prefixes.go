package pubsub

import (
	"iter"
	"slices"
	"strconv"

	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/shard/command"
)

// prefixTable finds the clients that are notified of a key by how it begins. What a key costs does not depend on how many
// prefixes there are: it is looked for once for each length that a prefix has.
type prefixTable struct {
	clients map[string]map[Subscriber]bool
	// lengthCounts are how many prefixes have a length, and sorted are the lengths.
	lengthCounts  map[int]int
	sortedLengths []int
}

const (
	// maxPrefixes and maxPrefixBytes are how many prefixes a client may track, and how long each: a change of
	// a long key is looked for once for each length.
	maxPrefixes    = 10_000
	maxPrefixBytes = 1 << 10
	// prefixOverhead is about how much memory a prefix takes besides its bytes.
	prefixOverhead = 200
)

// checkPrefixes refuses prefixes that are too many or too long, and those of which one begins with another:
// a client with both would be notified twice. The error is that of Redis.
func checkPrefixes(list [][]byte) error {
	if len(list) > maxPrefixes {
		return redis.Error("ERR too many prefixes: at most " + strconv.Itoa(maxPrefixes) + " of a connection")
	}
	for _, p := range list {
		if len(p) > maxPrefixBytes {
			return &command.LimitError{What: "prefix", Got: len(p), Limit: maxPrefixBytes}
		}
	}
	sorted := make([]string, len(list))
	for i, p := range list {
		sorted[i] = string(p)
	}
	slices.Sort(sorted)
	for i := 1; i < len(sorted); i++ {
		if a, b := sorted[i-1], sorted[i]; len(a) <= len(b) && a == b[:len(a)] {
			return redis.Error("ERR Prefix '" + a + "' overlaps with another provided prefix '" + b + "'. Prefixes for a single client must not overlap.")
		}
	}
	return nil
}

// add adds the prefixes of a client: the empty one if it names none.
func (p *prefixTable) add(c Subscriber, t *Tracking) {
	if p.clients == nil {
		p.clients, p.lengthCounts = map[string]map[Subscriber]bool{}, map[int]int{}
	}
	for _, prefix := range t.broadcastPrefixes() {
		all := p.clients[string(prefix)]
		if all == nil {
			all = map[Subscriber]bool{}
			p.clients[string(prefix)] = all
			p.addLength(len(prefix), 1)
		}
		all[c] = true
	}
}

// remove is the opposite of add. There is nothing to do for a client that did not track.
func (p *prefixTable) remove(c Subscriber, t *Tracking) {
	if t == nil {
		return
	}
	for _, prefix := range t.broadcastPrefixes() {
		all := p.clients[string(prefix)]
		if delete(all, c); all != nil && len(all) == 0 {
			delete(p.clients, string(prefix))
			p.addLength(len(prefix), -1)
		}
	}
}

// addLength notes that there is a prefix of a length more, or less.
func (p *prefixTable) addLength(length, more int) {
	switch p.lengthCounts[length] += more; {
	case p.lengthCounts[length] == 0:
		delete(p.lengthCounts, length)
		at, _ := slices.BinarySearch(p.sortedLengths, length)
		p.sortedLengths = slices.Delete(p.sortedLengths, at, at+1)
	case p.lengthCounts[length] == 1 && more > 0:
		at, _ := slices.BinarySearch(p.sortedLengths, length)
		p.sortedLengths = slices.Insert(p.sortedLengths, at, length)
	}
}

// clientsFor are the clients that are notified of a key, each once: their prefixes do not overlap.
func (p *prefixTable) clientsFor(key []byte) iter.Seq[Subscriber] {
	return func(yield func(Subscriber) bool) {
		for _, n := range p.sortedLengths {
			if n > len(key) {
				return
			}
			for c := range p.clients[string(key[:n])] {
				if !yield(c) {
					return
				}
			}
		}
	}
}
