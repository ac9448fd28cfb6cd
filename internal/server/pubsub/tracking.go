package pubsub

import (
	"github.com/cleavekv/cleave/internal/server/redis"
)

// Tracking is what a client wants to be notified of.
type Tracking struct {
	// prefixes are of the keys whose changes it gets whether it has read them or not, if
	// broadcast is set.
	Broadcast bool
	Prefixes  [][]byte
	// OptIn tracks what follows CLIENT CACHING YES alone, OptOut all but what follows
	// CLIENT CACHING NO.
	OptIn, OptOut bool
	// Redirect receives the messages, nil for the client itself.
	Redirect Subscriber
}

// Check refuses what does not go together, or not with what the client tracks already: nil for nothing.
func (t *Tracking) Check(old *Tracking) error {
	const again = " before disabling tracking for this client, and then re-enabling it with a different mode."
	switch {
	case len(t.Prefixes) > 0 && !t.Broadcast:
		return redis.Error("ERR PREFIX option requires BCAST mode to be enabled")
	case old != nil && old.Broadcast != t.Broadcast:
		return redis.Error("ERR You can't switch BCAST mode on/off" + again)
	case t.Broadcast && (t.OptIn || t.OptOut):
		return redis.Error("ERR OPTIN and OPTOUT are not compatible with BCAST")
	case t.OptIn && t.OptOut:
		return redis.Error("ERR You can't specify both OPTIN mode and OPTOUT mode")
	case old != nil && (t.OptIn && old.OptOut || t.OptOut && old.OptIn):
		return redis.Error("ERR You can't switch OPTIN/OPTOUT mode" + again)
	}
	return checkPrefixes(t.Prefixes)
}

// broadcastPrefixes are the prefixes of keys whose changes a client gets whether it has read them or not.
func (t *Tracking) broadcastPrefixes() [][]byte {
	switch {
	case !t.Broadcast:
		return nil
	case len(t.Prefixes) == 0:
		return [][]byte{nil}
	}
	return t.Prefixes
}

// MemoryBytes is about how much memory the prefixes take.
func (t *Tracking) MemoryBytes() (n int) {
	for _, p := range t.Prefixes {
		n += len(p) + prefixOverhead
	}
	return n
}
