package serve

import (
	"bytes"
	"strconv"

	"github.com/cleavekv/cleave/internal/redis"
)

func init() {
	handle(map[string]func(*turn){
		"client|tracking": clientTracking, "client|caching": clientCaching, "client|trackinginfo": trackingInfo, "client|getredir": getRedir,
	})
}

func clientTracking(t *turn) {
	on := redis.Is(t.Args[2], "ON")
	if !on && !redis.Is(t.Args[2], "OFF") {
		t.out.Fail(redis.ErrSyntax)
		return
	}
	want, err := t.s.trackingOptions(t.Args[3:])
	if err != nil {
		t.out.Fail(err)
		return
	}
	if !on {
		t.c.tracks, t.c.caching = nil, false
		t.s.tracker.end(t.c)
		t.out.OK()
		return
	}
	if old := t.c.tracks; old != nil && (old.broadcast != want.broadcast || old.optIn != want.optIn || old.optOut != want.optOut) {
		t.out.Fail(redis.Error("ERR You can't switch BCAST, OPTIN or OPTOUT modes before disabling tracking for this client, and then re-enabling it with a different mode."))
		return
	}
	t.c.tracks = want
	t.s.tracker.start(t.s, t.c, want)
	t.out.OK()
}

// trackingOptions reads what a client wants to hear.
func (s *Server) trackingOptions(words [][]byte) (*tracking, error) {
	t := &tracking{}
	for i := 0; i < len(words); i++ {
		switch word := words[i]; {
		case redis.Is(word, "REDIRECT") && i+1 < len(words):
			i++
			id, err := strconv.ParseUint(string(words[i]), 10, 64)
			if err != nil {
				return nil, redis.Error("ERR Invalid client ID")
			}
			if t.to = s.clients.get(id); t.to == nil {
				return nil, redis.Error("ERR The client ID you want redirect to does not exist")
			}
		case redis.Is(word, "PREFIX") && i+1 < len(words):
			i++
			t.prefixes = append(t.prefixes, bytes.Clone(words[i]))
		case redis.Is(word, "BCAST"):
			t.broadcast = true
		case redis.Is(word, "OPTIN"):
			t.optIn = true
		case redis.Is(word, "OPTOUT"):
			t.optOut = true
		case redis.Is(word, "NOLOOP"):
			return nil, redis.Error("ERR NOLOOP is not served: who writes a key that it has read is told so")
		default:
			return nil, redis.ErrSyntax
		}
	}
	switch {
	case len(t.prefixes) > 0 && !t.broadcast:
		return nil, redis.Error("ERR PREFIX option requires BCAST mode to be enabled")
	case t.optIn && t.optOut:
		return nil, redis.Error("ERR You can't specify both OPTIN mode and OPTOUT mode")
	case t.broadcast && (t.optIn || t.optOut):
		return nil, redis.Error("ERR OPTIN and OPTOUT are not compatible with BCAST")
	}
	return t, nil
}

// clientCaching says whether what the next request reads is tracked.
func clientCaching(t *turn) {
	c := t.c
	yes, no := redis.Is(t.Args[2], "YES"), redis.Is(t.Args[2], "NO")
	switch {
	case c.tracks == nil:
		t.out.Fail(redis.Error("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"))
	case yes && !c.tracks.optIn:
		t.out.Fail(redis.Error("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."))
	case no && !c.tracks.optOut:
		t.out.Fail(redis.Error("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."))
	case yes || no:
		c.caching = true
		t.out.OK()
	default:
		t.out.Fail(redis.ErrSyntax)
	}
}

func trackingInfo(t *turn) {
	flags, to, prefixes := []string{"off"}, int64(-1), [][]byte(nil)
	if k := t.c.tracks; k != nil {
		flags, to, prefixes = []string{"on"}, 0, k.prefixes
		for _, f := range []struct {
			on   bool
			name string
		}{{k.broadcast, "bcast"}, {k.optIn, "optin"}, {k.optOut, "optout"}, {k.optIn && t.c.caching, "caching-yes"}, {k.optOut && t.c.caching, "caching-no"}} {
			if f.on {
				flags = append(flags, f.name)
			}
		}
		if k.to != nil {
			to = int64(k.to.id)
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

func getRedir(t *turn) {
	switch k := t.c.tracks; {
	case k == nil:
		t.out.Int(-1)
	case k.to == nil:
		t.out.Int(0)
	default:
		t.out.Int(int64(k.to.id))
	}
}

// track enters a client that tracks as a reader of what it is about to read. What CLIENT
// CACHING says holds for the next request, and for all of a MULTI.
func (s *Server) track(c *client, spec *redis.Spec, args [][]byte) {
	asked := c.caching
	if c.queue == nil && spec.Name != "multi" || spec.Name == "exec" || spec.Name == "discard" {
		c.caching = false
	}
	k := c.tracks
	if c.queue != nil && c.queue.failed {
		return // it is never read, and what is noted in MULTI stays until EXEC
	}
	if spec.Flags&redis.ReadOnly == 0 || k.broadcast || k.optIn && !asked || k.optOut && asked {
		return
	}
	space := c.space.Name
	if c.queue != nil {
		space = c.queue.space.Name
	}
	at, _ := spec.KeysOf(args)
	for _, i := range at {
		s.tracker.read(c, space, args[i])
	}
}
