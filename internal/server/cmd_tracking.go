package server

import (
	"bytes"

	"github.com/cleavekv/cleave/internal/server/pubsub"
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
		t.s.tracker.Stop(&t.c.Conn)
		t.out.OK()
		return
	}
	if err := want.Check(t.c.tracking); err != nil {
		t.out.Fail(err)
		return
	}
	t.c.tracking, t.c.prefixBytes = want, want.MemoryBytes()
	t.s.tracker.Start(&t.c.Conn, want)
	t.out.OK()
}

// parseTracking reads which invalidations a client asks for.
func (s *Server) parseTracking(words [][]byte) (*pubsub.Tracking, error) {
	t := &pubsub.Tracking{}
	for i := 0; i < len(words); i++ {
		switch word := words[i]; {
		case redis.IsKeyword(word, "REDIRECT") && i+1 < len(words):
			i++
			id, ok := redis.Integer(words[i])
			if !ok {
				return nil, redis.ErrNotInteger
			}
			to := s.clients.Get(uint64(id))
			if to == nil {
				return nil, redis.Error("ERR The client ID you want redirect to does not exist")
			}
			t.Redirect = to
		case redis.IsKeyword(word, "PREFIX") && i+1 < len(words):
			i++
			t.Prefixes = append(t.Prefixes, bytes.Clone(words[i]))
		case redis.IsKeyword(word, "BCAST"):
			t.Broadcast = true
		case redis.IsKeyword(word, "OPTIN"):
			t.OptIn = true
		case redis.IsKeyword(word, "OPTOUT"):
			t.OptOut = true
		case redis.IsKeyword(word, "NOLOOP"):
			return nil, redis.Error("ERR NOLOOP is not served: who writes a key that it has read is told so")
		default:
			return nil, redis.ErrSyntax
		}
	}
	return t, nil
}

// handleClientCaching sets whether what the next request reads is tracked.
func handleClientCaching(t *call) {
	c := t.c
	yes, no := redis.IsKeyword(t.Args[2], "YES"), redis.IsKeyword(t.Args[2], "NO")
	switch {
	case c.tracking == nil:
		t.out.Fail(redis.Error("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"))
	case yes && !c.tracking.OptIn:
		t.out.Fail(redis.Error("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."))
	case no && !c.tracking.OptOut:
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
		flags, to, prefixes = []string{"on"}, 0, k.Prefixes
		for _, f := range []struct {
			on   bool
			name string
		}{{k.Broadcast, "bcast"}, {k.OptIn, "optin"}, {k.OptOut, "optout"}, {k.OptIn && t.c.cachingGiven, "caching-yes"}, {k.OptOut && t.c.cachingGiven, "caching-no"}} {
			if f.on {
				flags = append(flags, f.name)
			}
		}
		if k.Redirect != nil {
			to = int64(k.Redirect.ClientID())
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
	case k.Redirect == nil:
		t.out.Int(0)
	default:
		t.out.Int(int64(k.Redirect.ClientID()))
	}
}
