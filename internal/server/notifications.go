package server

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/inside"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/partition"
)

// notifyClasses are the classes of the setting notify-keyspace-events.
type notifyClasses uint32

const (
	notifyGeneric notifyClasses = 1 << iota
	notifyString
	notifyList
	notifySet
	notifyHash
	notifyZSet
	notifyExpired
	notifyEvicted
	notifyStream
	notifyModule
	notifyNew
	notifyKeyspace
	notifyKeyevent
	notifyKeyMiss

	notifyAll = notifyNew - 1 // as in Redis, without new keys and misses
)

// notifyLetters are the letters of the classes, in the order in which Redis prints them.
const notifyLetters = "g$lshzxetdnKEm"

// parseNotifyClasses reads the setting as Redis does.
func parseNotifyClasses(text string) (classes notifyClasses, err error) {
	for _, letter := range text {
		i := strings.IndexRune(notifyLetters, letter)
		switch {
		case letter == 'A':
			classes |= notifyAll
		case i < 0:
			return 0, errors.New("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.") //nolint:staticcheck // Redis' text
		default:
			classes |= 1 << i
		}
	}
	return classes, nil
}

// String is the setting as Redis prints it: it leaves n out beside A, and CONFIG GET of Cleave
// does not, so that what it prints may be set again.
func (c notifyClasses) String() string {
	var text strings.Builder
	if c&notifyAll == notifyAll {
		text.WriteByte('A')
		c &^= notifyAll
	}
	for i, letter := range notifyLetters {
		if c&(1<<i) != 0 {
			text.WriteRune(letter)
		}
	}
	return text.String()
}

// keyEvents are the events by what commands record, with their classes.
var keyEvents = map[command.Event]struct {
	name  string
	class notifyClasses
}{
	command.EventNew:          {"new", notifyNew},
	command.EventSet:          {"set", notifyString},
	command.EventSetRange:     {"setrange", notifyString},
	command.EventAppend:       {"append", notifyString},
	command.EventIncrBy:       {"incrby", notifyString},
	command.EventIncrByFloat:  {"incrbyfloat", notifyString},
	command.EventSetBit:       {"setbit", notifyString},
	command.EventExpire:       {"expire", notifyGeneric},
	command.EventPersist:      {"persist", notifyGeneric},
	command.EventDel:          {"del", notifyGeneric},
	command.EventExpired:      {"expired", notifyExpired},
	command.EventHSet:         {"hset", notifyHash},
	command.EventHDel:         {"hdel", notifyHash},
	command.EventHIncrBy:      {"hincrby", notifyHash},
	command.EventHIncrByFloat: {"hincrbyfloat", notifyHash},
	command.EventRenameFrom:   {"rename_from", notifyGeneric},
	command.EventRenameTo:     {"rename_to", notifyGeneric},
	command.EventCopyTo:       {"copy_to", notifyGeneric},
	command.EventRestore:      {"restore", notifyGeneric},
}

// notifier publishes keyspace notifications.
//
// While a class is on, the groups record the event of each write in their logs, and the
// notifier reads the feed of these. So an event is published once, after it was committed, in
// the order of the commits to its key, whoever has made the change: a client, a program that
// embeds the store, a transaction, an expiry. Misses change nothing, so they are in no log:
// who answers a read publishes them.
type notifier struct {
	mu      sync.Mutex
	classes atomic.Uint32
	stop    func() // nil if it does not follow the feed
}

func (n *notifier) enabledClasses() notifyClasses { return notifyClasses(n.classes.Load()) }

// setNotifyClasses changes which events are published. Those of writes that begin after it has
// returned are.
func (s *Server) setNotifyClasses(classes notifyClasses) {
	n := &s.notifier
	n.mu.Lock()
	defer n.mu.Unlock()
	n.classes.Store(uint32(classes))
	recorded := classes & (notifyAll | notifyNew)
	follows := recorded != 0 && classes&(notifyKeyspace|notifyKeyevent) != 0
	switch {
	case follows && n.stop == nil:
		ctx, cancel := context.WithCancel(s.ctx)
		release := s.node.RecordEvents()
		n.stop = func() { cancel(); release() }
		from := s.db.Head()
		s.running.Go(func() { s.followEvents(ctx, from) })
	case !follows && n.stop != nil:
		n.stop()
		n.stop = nil
	}
}

// close stops recording.
func (n *notifier) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stop != nil {
		n.stop()
		n.stop = nil
	}
}

// followEvents publishes what is committed until ctx ends.
func (s *Server) followEvents(ctx context.Context, from cleave.Cursor) {
	for pause := time.Duration(0); ; {
		err := inside.FollowEvents(ctx, s.db, string(from), func(e inside.KeyEvent) {
			pause = 0
			if event, ok := keyEvents[e.Event]; ok {
				s.publishEvent(event.class, event.name, e.Keyspace, e.Key)
			}
		})
		if ctx.Err() != nil || errors.Is(err, cleave.ErrClosed) {
			return
		}
		s.opts.Log.Warn("keyspace notifications were lost: the log is written faster than it is read, or cannot be read", "error", err)
		if !errors.Is(err, cleave.ErrGone) {
			pause = min(2*pause+10*time.Millisecond, time.Second)
			sleepContext(ctx, pause)
		}
		from = s.db.Head()
	}
}

// publishEvent publishes an event of a key, if its class is on.
func (s *Server) publishEvent(class notifyClasses, event, space string, key []byte) {
	classes := s.notifier.enabledClasses()
	if classes&class == 0 {
		return
	}
	if space == node.DefaultKeyspace {
		space = "0"
	}
	if classes&notifyKeyspace != 0 {
		s.hub.publish(byChannel, "__keyspace@"+space+"__:"+string(key), []byte(event))
	}
	if classes&notifyKeyevent != 0 {
		s.hub.publish(byChannel, "__keyevent@"+space+"__:"+event, key)
	}
}

// notifiesMisses reports whether reads of keys that do not exist are published.
func (s *Server) notifiesMisses() bool { return s.notifier.enabledClasses()&notifyKeyMiss != 0 }

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
			u.c.s.publishEvent(notifyKeyMiss, "keymiss", m.keyspace.Name, key)
		}
	}
	u.misses = nil
}
