package serve

import (
	"context"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/redis"
	"github.com/cleavekv/cleave/internal/resp"
)

// client is one connection. It belongs to its worker, but for the time in which it is
// busy: then it belongs to the goroutine that does something for it.
type client struct {
	id     uint64
	space  *node.Space
	parser resp.Parser
	// in is what has arrived and was not taken: a part of a request, or requests behind
	// one that takes long.
	in  []byte
	out redis.Writer
	// pending is how many of its requests are staged, and part where they are.
	// Invariant: while it is positive, nothing is written to out but by commit.
	pending int
	part    *node.Part
	// busy tells that requests of it are under way elsewhere, and later what they are.
	busy  bool
	later []func(context.Context)
	// closing tells that it is closed once out is written.
	closing bool
	// silent tells that the client wants no answers, and skip for how many requests.
	silent bool
	skip   int
	// name, library and libraryVersion are what it says about itself.
	name, library, libraryVersion []byte
	// watched are the keys of WATCH.
	watched []watched
	// queue is what MULTI has gathered, nil outside of it.
	queue *queue

	conn transport
}

// transport is what a client's bytes come and go by.
type transport interface {
	// dirty is called when out has got something, or the client is closing.
	dirty(*client)
	// resume is called when a client that was busy is not any more, from any goroutine.
	resume(*client)
}

// keepOut is how much memory for answers a client keeps.
const keepOut = 64 << 10

// watched is a key of WATCH with the version that it had.
type watched struct {
	space   *node.Space
	key     []byte
	version uint64
}
