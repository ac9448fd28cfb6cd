package serve

import (
	"strconv"

	"github.com/cleavekv/cleave/internal/redis"
)

func init() {
	handle(map[string]func(*turn){
		"subscribe": subscribe(byChannel), "psubscribe": subscribe(byPattern), "ssubscribe": subscribe(bySlot),
		"unsubscribe": unsubscribe(byChannel), "punsubscribe": unsubscribe(byPattern), "sunsubscribe": unsubscribe(bySlot),
		"publish": publish(byChannel), "spublish": publish(bySlot),
		"pubsub|channels": channels(byChannel), "pubsub|shardchannels": channels(bySlot),
		"pubsub|numsub": numSub(byChannel), "pubsub|shardnumsub": numSub(bySlot),
		"pubsub|numpat": func(t *turn) { t.out.Int(int64(t.s.hub.patterns())) },
		"pubsub|help": help("PUBSUB", "CHANNELS [<pattern>]", "    Return the currently active channels matching a <pattern> (default: '*').",
			"NUMPAT", "    Return number of subscriptions to patterns.",
			"NUMSUB [<channel> ...]", "    Return the number of subscribers for the specified channels, excluding", "    pattern subscriptions(default: no channels).",
			"SHARDCHANNELS [<pattern>]", "    Return the currently active shard level channels matching a <pattern> (default: '*').",
			"SHARDNUMSUB [<shardchannel> ...]", "    Return the number of subscribers for the specified shard level channel(s)"),
	})
}

// note tells a client about a change of its subscriptions.
func note(out *redis.Writer, word string, name []byte, n int64) {
	out.Push(3)
	out.Text(word)
	if name == nil {
		out.Null()
	} else {
		out.Bulk(name)
	}
	out.Int(n)
}

func subscribe(s scope) func(*turn) {
	return func(t *turn) {
		if n := t.s.hub.counts(t.c); n[byChannel]+n[byPattern]+n[bySlot]+len(t.Args)-1 > maxNames {
			t.out.Fail(redis.Error("ERR too many subscriptions: at most " + strconv.Itoa(maxNames) + " of a connection"))
			return
		}
		t.c.pushing = true
		for _, name := range t.Args[1:] {
			t.s.hub.join(t.c, s, string(name), func(n int64) { note(t.out, subscribed[s], name, n) })
		}
		t.c.listening = true
		t.c.seen.listens.Store(true)
	}
}

func unsubscribe(s scope) func(*turn) {
	return func(t *turn) {
		t.c.pushing = true
		names := t.Args[1:]
		if len(names) == 0 {
			for _, name := range t.s.hub.namesOf(t.c, s) {
				names = append(names, []byte(name))
			}
		}
		if len(names) == 0 {
			note(t.out, unsubscribed[s], nil, told(s, t.s.hub.counts(t.c)))
		}
		for _, name := range names {
			t.s.hub.part(t.c, s, string(name), func(n int64) {
				t.messagesFirst()
				note(t.out, unsubscribed[s], name, n)
			})
		}
		t.c.listening = t.s.hub.counts(t.c) != [scopes]int{}
		t.c.seen.listens.Store(t.c.listening)
	}
}

func publish(s scope) func(*turn) {
	return func(t *turn) { t.out.Int(t.s.hub.publish(s, string(t.Args[1]), t.Args[2])) }
}

func channels(s scope) func(*turn) {
	return func(t *turn) {
		var pattern []byte
		switch len(t.Args) {
		case 2:
		case 3:
			pattern = t.Args[2]
		default:
			t.out.Fail(redis.Arity(t.Spec.Name))
			return
		}
		names := t.s.hub.heard(s, pattern)
		t.out.Array(len(names))
		for _, name := range names {
			t.out.Text(name)
		}
	}
}

func numSub(s scope) func(*turn) {
	return func(t *turn) {
		t.out.Map(len(t.Args) - 2)
		for _, name := range t.Args[2:] {
			t.out.Bulk(name)
			t.out.Int(int64(t.s.hub.audience(s, string(name))))
		}
	}
}

// whileListening are the commands that a client of RESP2 may use while it listens: it
// could not tell other answers from messages.
var whileListening = map[string]bool{
	"subscribe": true, "unsubscribe": true, "psubscribe": true, "punsubscribe": true, "ssubscribe": true, "sunsubscribe": true,
	"ping": true, "quit": true, "reset": true,
}
