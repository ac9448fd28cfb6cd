package server

import (
	"strings"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/partition"
)

// mayMiss reports whether Redis publishes a miss of a key that the command reads.
func mayMiss(spec *redis.Spec) bool {
	switch spec.Name {
	case "getdel", "getex":
		return true
	case "memory|usage":
		return false
	}
	return spec.Flags&redis.ReadOnly != 0 && spec.Keys.First > 0 && !strings.HasPrefix(spec.Name, "object|")
}

// missRecorder is a state that notes which keys a request did not find.
type missRecorder struct {
	unitState
	misses *[]missedKey
}

type missedKey struct {
	keyspace *node.Keyspace
	p        partition.Position
}

// eval implements [unitState].
func (m missRecorder) eval(k *node.Keyspace, p partition.Position, c command.Command, writes bool) command.Reply {
	if !writes {
		list := *m.misses
		again := len(list) > 0 && string(list[len(list)-1].p) == string(p)
		if exists := m.unitState.eval(k, p, &command.Exists{Keys: []partition.Position{p}}, false); !again && exists.Err == nil && exists.Int == 0 {
			*m.misses = append(list, missedKey{k, p})
		}
	}
	return m.unitState.eval(k, p, c, writes)
}

// publishMisses publishes what the unit did not find.
func (u *unit) publishMisses() {
	for _, m := range u.misses {
		if key, _, err := m.keyspace.Split(nil, m.p); err == nil {
			u.c.s.notifier.PublishMiss(m.keyspace.Name, key)
		}
	}
	u.misses = nil
}
