package pubsub

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/engine"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
)

// Classes are the classes of the setting notify-keyspace-events.
type Classes uint32

const (
	notifyGeneric Classes = 1 << iota
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

// ParseClasses reads the setting as Redis does.
func ParseClasses(text string) (classes Classes, err error) {
	for _, letter := range text {
		i := strings.IndexRune(notifyLetters, letter)
		switch {
		case letter == 'A':
			classes |= notifyAll
		case i < 0:
			//lint:ignore ST1005 it is the text of Redis
			return 0, errors.New("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")
		default:
			classes |= 1 << i
		}
	}
	return classes, nil
}

// String is the setting as Redis prints it: it leaves n out beside A, and CONFIG GET of Cleave
// does not, so that what it prints may be set again.
func (c Classes) String() string {
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
	class Classes
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

// Notifier publishes keyspace notifications.
//
// While a class is on, the groups record the event of each write in their logs, and the
// notifier reads the feed of these. So an event is published once, after it was committed, in
// the order of the commits to its key, whatever made the change: a client, a program that
// embeds the store, a transaction, an expiry. Misses change nothing, so they are in no log:
// the reader's connection publishes them.
type Notifier struct {
	mu      sync.Mutex
	classes atomic.Uint32
	stop    func() // nil if it does not follow the feed

	hub    *Hub
	source *ChangeSource
}

// NewNotifier returns a notifier that publishes nothing before SetClasses.
func NewNotifier(h *Hub, source *ChangeSource) *Notifier { return &Notifier{hub: h, source: source} }

func (n *Notifier) enabledClasses() Classes { return Classes(n.classes.Load()) }

// SetClasses changes which events are published. Those of writes that begin after it has
// returned are.
func (n *Notifier) SetClasses(classes Classes) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.classes.Store(uint32(classes))
	recorded := classes & (notifyAll | notifyNew)
	follows := recorded != 0 && classes&(notifyKeyspace|notifyKeyevent) != 0
	switch {
	case follows && n.stop == nil:
		ctx, cancel := context.WithCancel(n.source.Ctx)
		release := n.source.Node.RecordEvents()
		n.stop = func() { cancel(); release() }
		from := n.source.DB.Head()
		n.source.Running.Go(func() { n.followEvents(ctx, from) })
	case !follows && n.stop != nil:
		n.stop()
		n.stop = nil
	}
}

// Close stops recording.
func (n *Notifier) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stop != nil {
		n.stop()
		n.stop = nil
	}
}

// followEvents publishes what is committed until ctx ends.
func (n *Notifier) followEvents(ctx context.Context, from cleave.Cursor) {
	for pause := time.Duration(0); ; {
		err := cleave.PublicError(n.source.Engine.FollowEvents(ctx, string(from), func(e engine.KeyEvent) {
			pause = 0
			if event, ok := keyEvents[e.Event]; ok {
				n.publishEvent(event.class, event.name, e.Keyspace, e.Key)
			}
		}))
		if ctx.Err() != nil || errors.Is(err, cleave.ErrClosed) {
			return
		}
		n.source.Log.Warn("keyspace notifications were lost: the log is written faster than it is read, or cannot be read", "error", err)
		if !errors.Is(err, cleave.ErrGone) {
			pause = min(2*pause+10*time.Millisecond, time.Second)
			wait(ctx, pause)
		}
		from = n.source.DB.Head()
	}
}

// publishEvent publishes an event of a key, if its class is on.
func (n *Notifier) publishEvent(class Classes, event, space string, key []byte) {
	classes := n.enabledClasses()
	if classes&class == 0 {
		return
	}
	if space == node.DefaultKeyspace {
		space = "0"
	}
	if classes&notifyKeyspace != 0 {
		n.hub.Publish(ByChannel, "__keyspace@"+space+"__:"+string(key), []byte(event))
	}
	if classes&notifyKeyevent != 0 {
		n.hub.Publish(ByChannel, "__keyevent@"+space+"__:"+event, key)
	}
}

// PublishesMisses reports whether reads of keys that do not exist are published.
func (n *Notifier) PublishesMisses() bool { return n.enabledClasses()&notifyKeyMiss != 0 }

// PublishMiss publishes that a read has not found a key.
func (n *Notifier) PublishMiss(space string, key []byte) {
	n.publishEvent(notifyKeyMiss, "keymiss", space, key)
}
