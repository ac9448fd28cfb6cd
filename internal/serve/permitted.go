package serve

import (
	"slices"

	"github.com/cleavekv/cleave/internal/acl"
	"github.com/cleavekv/cleave/internal/redis"
)

// permitted refuses what a user may not do.
func (s *Server) permitted(c *client, u *acl.User, spec *redis.Spec, args [][]byte) error {
	reason, object := refusal(u, spec, args)
	if reason == "" {
		return nil
	}
	s.denied.note(&turn{s: s, c: c}, reason, object, u.Name)
	switch reason {
	case "command":
		return redis.Error("NOPERM this user has no permissions to run the '" + spec.Name + "' command")
	case "key":
		return redis.Error("NOPERM this user has no permissions to access one of the keys used as arguments")
	}
	return redis.Error("NOPERM this user has no permissions to access one of the channels used as arguments")
}

// refusal is why a user may not do something, and what that is; empty if it may.
func refusal(u *acl.User, spec *redis.Spec, args [][]byte) (reason, object string) {
	if !u.MayRun(spec) && spec.Flags&redis.NoAuth == 0 {
		return "command", spec.Name
	}
	access := acl.Read
	if spec.Flags&redis.Write != 0 {
		access = acl.Write
		if spec.Flags&redis.ReadOnly != 0 || !silent[spec.Name] || tellsOld(spec, args) {
			access |= acl.Read
		}
	}
	at, _ := spec.KeysOf(args)
	for _, i := range at {
		if !u.MayKey(args[i], access) {
			return "key", string(args[i])
		}
	}
	channels, pattern := channelsOf(spec, args)
	for _, name := range channels {
		if !u.MayChannel(name, pattern) {
			return "channel", string(name)
		}
	}
	return "", ""
}

// silent are the commands that write without telling anything about what was there: who
// may write a key and not read it may use them.
var silent = map[string]bool{"set": true, "setex": true, "psetex": true, "mset": true, "del": true, "unlink": true, "hset": true, "hmset": true, "expire": true}

// tellsOld tells whether a SET answers with what was there.
func tellsOld(spec *redis.Spec, args [][]byte) bool {
	return spec == setSpec && slices.ContainsFunc(args[min(3, len(args)):], func(word []byte) bool { return redis.Is(word, "GET") })
}

// channelsOf are the channels that a request names.
func channelsOf(spec *redis.Spec, args [][]byte) (names [][]byte, pattern bool) {
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
