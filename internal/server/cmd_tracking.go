package server

import (
	"bytes"

	"github.com/cleavekv/cleave/internal/server/redis"
)

func init() {
	registerHandlers(map[string]func(*call){
		"client|tracking": handleClientTracking, "client|caching": handleClientCaching, "client|trackinginfo": handleClientTrackingInfo, "client|getredir": handleClientGetRedir,
	})
}

func handleClientTracking(t *call) {
	on := redis.IsKeyword(t.Args[2], "ON")
	if !on && !redis.IsKeyword(t.Args[2], "OFF") {
		t.out.Fail(redis.ErrSyntax)
		return
	}
	want, err := t.s.parseTracking(t.Args[3:])
	if err != nil {
		t.out.Fail(err)
		return
	}
	if !on {
		t.c.tracking, t.c.cachingGiven, t.c.prefixBytes = nil, false, 0
		t.s.tracker.stopTracking(t.c)
		t.out.OK()
		return
	}
	if err := want.check(t.c.tracking); err != nil {
		t.out.Fail(err)
		return
	}
	t.c.tracking, t.c.prefixBytes = want, want.memoryBytes()
	t.s.tracker.startTracking(t.s, t.c, want)
	t.out.OK()
}

// parseTracking reads what a client wants to hear.
func (s *Server) parseTracking(words [][]byte) (*tracking, error) {
	t := &tracking{}
	for i := 0; i < len(words); i++ {
		switch word := words[i]; {
		case redis.IsKeyword(word, "REDIRECT") && i+1 < len(words):
			i++
			id, ok := redis.Integer(words[i])
			if !ok {
				return nil, redis.ErrNotInteger
			}
			if t.redirect = s.clients.get(uint64(id)); t.redirect == nil {
				return nil, redis.Error("ERR The client ID you want redirect to does not exist")
			}
		case redis.IsKeyword(word, "PREFIX") && i+1 < len(words):
			i++
			t.prefixes = append(t.prefixes, bytes.Clone(words[i]))
		case redis.IsKeyword(word, "BCAST"):
			t.broadcast = true
		case redis.IsKeyword(word, "OPTIN"):
			t.optIn = true
		case redis.IsKeyword(word, "OPTOUT"):
			t.optOut = true
		case redis.IsKeyword(word, "NOLOOP"):
			return nil, redis.Error("ERR NOLOOP is not served: who writes a key that it has read is told so")
		default:
			return nil, redis.ErrSyntax
		}
	}
	return t, nil
}

// check refuses what does not go together, or not with what the client tracks already: nil for nothing.
func (t *tracking) check(old *tracking) error {
	const again = " before disabling tracking for this client, and then re-enabling it with a different mode."
	switch {
	case len(t.prefixes) > 0 && !t.broadcast:
		return redis.Error("ERR PREFIX option requires BCAST mode to be enabled")
	case old != nil && old.broadcast != t.broadcast:
		return redis.Error("ERR You can't switch BCAST mode on/off" + again)
	case t.broadcast && (t.optIn || t.optOut):
		return redis.Error("ERR OPTIN and OPTOUT are not compatible with BCAST")
	case t.optIn && t.optOut:
		return redis.Error("ERR You can't specify both OPTIN mode and OPTOUT mode")
	case old != nil && (t.optIn && old.optOut || t.optOut && old.optIn):
		return redis.Error("ERR You can't switch OPTIN/OPTOUT mode" + again)
	}
	return checkPrefixes(t.prefixes)
}

// handleClientCaching says whether what the next request reads is tracked.
func handleClientCaching(t *call) {
	c := t.c
	yes, no := redis.IsKeyword(t.Args[2], "YES"), redis.IsKeyword(t.Args[2], "NO")
	switch {
	case c.tracking == nil:
		t.out.Fail(redis.Error("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"))
	case yes && !c.tracking.optIn:
		t.out.Fail(redis.Error("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."))
	case no && !c.tracking.optOut:
		t.out.Fail(redis.Error("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."))
	case yes || no:
		c.cachingGiven = true
		t.out.OK()
	default:
		t.out.Fail(redis.ErrSyntax)
	}
}

func handleClientTrackingInfo(t *call) {
	flags, to, prefixes := []string{"off"}, int64(-1), [][]byte(nil)
	if k := t.c.tracking; k != nil {
		flags, to, prefixes = []string{"on"}, 0, k.prefixes
		for _, f := range []struct {
			on   bool
			name string
		}{{k.broadcast, "bcast"}, {k.optIn, "optin"}, {k.optOut, "optout"}, {k.optIn && t.c.cachingGiven, "caching-yes"}, {k.optOut && t.c.cachingGiven, "caching-no"}} {
			if f.on {
				flags = append(flags, f.name)
			}
		}
		if k.redirect != nil {
			to = int64(k.redirect.id)
		}
	}
	t.out.Map(3)
	t.out.Text("flags")
	t.out.Set(len(flags))
	for _, f := range flags {
		t.out.Text(f)
	}
	t.out.Text("redirect")
	t.out.Int(to)
	t.out.Text("prefixes")
	t.out.Array(len(prefixes))
	for _, p := range prefixes {
		t.out.Bulk(p)
	}
}

func handleClientGetRedir(t *call) {
	switch k := t.c.tracking; {
	case k == nil:
		t.out.Int(-1)
	case k.redirect == nil:
		t.out.Int(0)
	default:
		t.out.Int(int64(k.redirect.id))
	}
}

// trackReads enters a client that tracks as a reader of what it is about to read. What CLIENT
// CACHING says holds for the next request, and for all of a MULTI.
func (s *Server) trackReads(c *client, spec *redis.Spec, args [][]byte) {
	asked := c.cachingGiven
	if c.queue == nil && spec.Name != "multi" || spec.Name == "exec" || spec.Name == "discard" {
		c.cachingGiven = false
	}
	k := c.tracking
	if c.queue != nil && c.queue.failed {
		return // it is never read, and what is noted in MULTI stays until EXEC
	}
	if spec.Flags&redis.ReadOnly == 0 || k.broadcast || k.optIn && !asked || k.optOut && asked {
		return
	}
	space := c.keyspace.Name
	if c.queue != nil {
		space = c.queue.keyspace.Name
	}
	at, _ := spec.KeyIndexes(args)
	for _, i := range at {
		s.tracker.recordReads(c, space, args[i])
	}
}
