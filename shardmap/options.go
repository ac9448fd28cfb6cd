package shardmap

import (
	"errors"
	"fmt"
	"math/bits"
	"runtime"
)

// ErrOptions means that New was given options that make no sense; the text
// says which and what to do.
var ErrOptions = errors.New("shardmap: bad options")

// Options shapes a map. The zero value is right for most.
type Options struct {
	// Shards is the number of shards, a power of two from 1 to 4096. More
	// shards let more goroutines insert and grow at once; each costs 128
	// bytes. Default (0): 64 or 4 per processor that Go may use, whichever
	// is more, and enough that Capacity leaves about 32768 entries a shard.
	Shards int

	// Capacity is how many entries the map is built for: inserting that many
	// causes little growth, and deleting them does not give the room back.
	// Default 0: the map starts empty. At most 2^40.
	Capacity int
}

const (
	minDefaultShards   = 64
	maxShards          = 4096
	defaultShardSize   = 32768
	maxCapacity        = 1 << 40
	shardsPerProcessor = 4
)

// withDefaults validates o and fills in what it leaves open.
func (o Options) withDefaults() (Options, error) {
	var errs []error
	if o.Shards < 0 || o.Shards > maxShards || o.Shards&(o.Shards-1) != 0 {
		errs = append(errs, fmt.Errorf("option Shards is %d: use a power of two from 1 to %d, or 0 for the default", o.Shards, maxShards))
	}
	if o.Capacity < 0 || int64(o.Capacity) > maxCapacity {
		errs = append(errs, fmt.Errorf("option Capacity is %d: use 0 to 2^40 entries", o.Capacity))
	}
	if len(errs) > 0 {
		return o, fmt.Errorf("%w: %w", ErrOptions, errors.Join(errs...))
	}
	if o.Shards == 0 {
		want := max(minDefaultShards, shardsPerProcessor*runtime.GOMAXPROCS(0), o.Capacity/defaultShardSize)
		o.Shards = min(maxShards, 1<<bits.Len(uint(want-1)))
	}
	return o, nil
}
