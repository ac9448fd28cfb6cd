package lanes

import "github.com/cleavekv/cleave/internal/plant"

// Row is a message that waits in a bucket.
type Row struct {
	Seq uint64
	// Key is empty if it may come in any order.
	Key string
}

// Chooser picks the messages of a bucket that may be handed out. It is shown all that
// wait there, from the oldest on, and a message that is not among them must never
// come back: the oldest of each key is then the one that is next.
type Chooser struct {
	NowMS int64
	Most  int
	// Picked are those that may be handed out, unless they have changed since.
	Picked []Row
	// WakeMS is when the next one of those that are held comes free; 0 for never.
	WakeMS int64
	ahead  map[string]bool // keys of older messages
}

// Show shows the next message with its lease, and tells whether to go on.
func (c *Chooser) Show(r Row, l Lease) bool {
	if r.Key != "" {
		if c.ahead[r.Key] && !plant.Bug("queue-key-out-twice") {
			return true
		}
		if c.ahead == nil {
			c.ahead = map[string]bool{}
		}
		c.ahead[r.Key] = true
	}
	if l.Held(c.NowMS) {
		if c.WakeMS == 0 || l.UntilMS < c.WakeMS {
			c.WakeMS = l.UntilMS
		}
		return true
	}
	c.Picked = append(c.Picked, r)
	return len(c.Picked) < c.Most
}

// Claim is what becomes of a message when it is handed out: its lease, or dead if it
// was handed out too often.
func (l Lease) Claim(nowMS, forMS int64, token, most uint64) (next Lease, dead bool) {
	if l.Deliveries >= most {
		return Lease{}, true
	}
	return Lease{Deliveries: l.Deliveries + 1, UntilMS: nowMS + forMS, Token: token}, false
}

// Mine tells whether the one with a token still has the message. A lease that has run out
// is still his, as long as nobody else was given it.
func (l Lease) Mine(token uint64) bool {
	return l.Token == token && token != 0 || plant.Bug("queue-late-ack")
}
