package server

import (
	"slices"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/server/acl"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/server/settings"
)

// checkPermission refuses what a user may not do.
func (s *Server) checkPermission(c *client, u *acl.User, spec *redis.Spec, args [][]byte) error {
	reason, object := checkACL(u, spec, args)
	if reason == "" {
		return nil
	}
	s.deniedLog.record(&call{s: s, c: c}, reason, object, u.Name)
	switch reason {
	case "command":
		return redis.Error("NOPERM this user has no permissions to run the '" + spec.Name + "' command")
	case "key":
		return redis.Error("NOPERM this user has no permissions to access one of the keys used as arguments")
	}
	return redis.Error("NOPERM this user has no permissions to access one of the channels used as arguments")
}

// checkACL is why a user may not do something, and what that is; empty if it may.
func checkACL(u *acl.User, spec *redis.Spec, args [][]byte) (reason, object string) {
	if !u.CanRun(spec) && spec.Flags&redis.NoAuth == 0 {
		return "command", spec.Name
	}
	access := acl.Read
	if spec.Flags&redis.Write != 0 {
		access = acl.Write
		if spec.Flags&redis.ReadOnly != 0 || !writeOnlyCommands[spec.Name] || returnsOldValue(spec, args) {
			access |= acl.Read
		}
	}
	at, _ := spec.KeyIndexes(args)
	for _, i := range at {
		if !u.CanAccessKey(args[i], access) {
			return "key", string(args[i])
		}
	}
	channels, pattern := requestChannels(spec, args)
	for _, name := range channels {
		if !u.CanAccessChannel(name, pattern) {
			return "channel", string(name)
		}
	}
	return "", ""
}

// writeOnlyCommands are the commands that write without revealing what was there: a user that
// may write a key and not read it may use them.
var writeOnlyCommands = map[string]bool{"set": true, "setex": true, "psetex": true, "mset": true, "del": true, "unlink": true, "hset": true, "hmset": true, "expire": true}

// returnsOldValue reports whether a SET answers with what was there.
func returnsOldValue(spec *redis.Spec, args [][]byte) bool {
	return spec == setSpec && slices.ContainsFunc(args[min(3, len(args)):], func(word []byte) bool { return redis.IsKeyword(word, "GET") })
}

// requestChannels are the channels that a request names.
func requestChannels(spec *redis.Spec, args [][]byte) (names [][]byte, pattern bool) {
	switch spec.Name {
	case "subscribe", "ssubscribe":
		return args[1:], false
	case "psubscribe":
		return args[1:], true
	case "publish", "spublish":
		return args[1:2], false
	}
	return nil, false
}

// deniedLog is the newest of what was refused.
type deniedLog struct {
	mu      sync.Mutex
	entries []deniedEntry
}

type deniedEntry struct {
	count                                     int
	reason, context, object, user, clientInfo string
	first                                     time.Time
}

func (d *deniedLog) record(t *call, reason, object, user string) {
	now, object := t.s.opts.Now(), object[:min(len(object), maxNameBytes)]
	user = user[:min(len(user), maxNameBytes)]
	context := "toplevel"
	if t.c.queue != nil {
		context = "multi"
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.entries {
		e := &d.entries[i]
		if e.reason == reason && e.context == context && e.object == object && e.user == user && now.Sub(e.first) < time.Minute {
			e.count++
			return
		}
	}
	d.entries = slices.Insert(d.entries, 0, deniedEntry{1, reason, context, object, user, t.s.formatClient(&t.c.Conn, now), now})
	d.entries = d.entries[:min(len(d.entries), settings.MaxDeniedEntries)]
}
