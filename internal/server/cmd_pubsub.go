package server

import (
	"slices"
	"strconv"

	"github.com/cleavekv/cleave/internal/server/redis"
)

func init() {
	registerHandlers(map[string]func(*call){
		"subscribe": handleSubscribe(byChannel), "psubscribe": handleSubscribe(byPattern), "ssubscribe": handleSubscribe(bySlot),
		"unsubscribe": handleUnsubscribe(byChannel), "punsubscribe": handleUnsubscribe(byPattern), "sunsubscribe": handleUnsubscribe(bySlot),
		"spublish":      handlePublish(bySlot),
		"pubsub|numsub": handlePubsubNumSub(byChannel), "pubsub|shardnumsub": handlePubsubNumSub(bySlot),
		"pubsub|numpat": func(t *call) { t.out.Int(int64(t.s.hub.countPatterns())) },
		"pubsub|help": newHelpHandler("PUBSUB", "CHANNELS [<pattern>]", "    Return the currently active channels matching a <pattern> (default: '*').",
			"NUMPAT", "    Return number of subscriptions to patterns.",
			"NUMSUB [<channel> ...]", "    Return the number of subscribers for the specified channels, excluding", "    pattern subscriptions(default: no channels).",
			"SHARDCHANNELS [<pattern>]", "    Return the currently active shard level channels matching a <pattern> (default: '*').",
			"SHARDNUMSUB [<shardchannel> ...]", "    Return the number of subscribers for the specified shard level channel(s)"),
	})
	registerBlockingHandlers(map[string]func(*call){"pubsub|channels": handlePubsubChannels(byChannel), "pubsub|shardchannels": handlePubsubChannels(bySlot)})
	handlers["publish"] = handler{handle: handlePublish(byChannel), mayBlock: func(s *Server, r *redis.Request) bool { return s.hub.isPublishSlow(r.Args[1]) }}
}

// scopeLabels are what the names of a scope are called in errors.
var scopeLabels = [scopeCount]string{"channel", "pattern", "channel"}

// writeSubscription tells a client about a change of its subscriptions.
func writeSubscription(out *redis.Writer, word string, name []byte, n int64) {
	out.Push(3)
	out.Text(word)
	if name == nil {
		out.Null()
	} else {
		out.Bulk(name)
	}
	out.Int(n)
}

func handleSubscribe(s scope) func(*call) {
	return func(t *call) {
		if n := t.s.hub.countSubscriptions(t.c); n[byChannel]+n[byPattern]+n[bySlot]+len(t.Args)-1 > maxSubscriptions {
			t.out.Fail(redis.Error("ERR too many subscriptions: at most " + strconv.Itoa(maxSubscriptions) + " of a connection"))
			return
		}
		if err := checkNames(scopeLabels[s], t.Args[1:]...); err != nil {
			t.out.Fail(err)
			return
		}
		t.c.replyIsPush = true
		for _, name := range t.Args[1:] {
			t.s.hub.subscribe(t.c, s, string(name), func(n int64) { writeSubscription(t.out, subscribeKinds[s], name, n) })
		}
		t.c.subscribed = true
		t.c.status.subscribed.Store(true)
		t.c.nameBytes = t.s.hub.subscriptionBytes(t.c)
		// The user may have been changed meanwhile: then closeRevoked has not seen these names.
		if u := t.c.account.User(); !u.IsUnlimited() && slices.ContainsFunc(t.Args[1:], func(name []byte) bool { return !u.CanAccessChannel(name, s == byPattern) }) {
			t.c.closing = true
		}
	}
}

func handleUnsubscribe(s scope) func(*call) {
	return func(t *call) {
		t.c.replyIsPush = true
		names := t.Args[1:]
		if len(names) == 0 {
			for _, name := range t.s.hub.listNames(t.c, s) {
				names = append(names, []byte(name))
			}
		}
		if len(names) == 0 {
			writeSubscription(t.out, unsubscribeKinds[s], nil, reportedCount(s, t.s.hub.countSubscriptions(t.c)))
		}
		for _, name := range names {
			t.s.hub.unsubscribe(t.c, s, string(name), func(n int64) {
				t.collectMailFirst()
				writeSubscription(t.out, unsubscribeKinds[s], name, n)
			})
		}
		t.c.subscribed = t.s.hub.countSubscriptions(t.c) != [scopeCount]int{}
		t.c.status.subscribed.Store(t.c.subscribed)
		t.c.nameBytes = t.s.hub.subscriptionBytes(t.c)
	}
}

func handlePublish(s scope) func(*call) {
	return func(t *call) {
		if err := checkNames("channel", t.Args[1]); err != nil {
			t.out.Fail(err)
			return
		}
		t.out.Int(t.s.hub.publish(s, string(t.Args[1]), t.Args[2]))
	}
}

func handlePubsubChannels(s scope) func(*call) {
	return func(t *call) {
		var pattern []byte
		switch len(t.Args) {
		case 2:
		case 3:
			if pattern = t.Args[2]; checkNames("pattern", pattern) != nil {
				t.out.Fail(checkNames("pattern", pattern))
				return
			}
		default:
			t.out.Fail(redis.SubcommandArity(&t.Request))
			return
		}
		names := t.s.hub.matchNames(s, pattern)
		t.out.Array(len(names))
		for _, name := range names {
			t.out.Text(name)
		}
	}
}

func handlePubsubNumSub(s scope) func(*call) {
	return func(t *call) {
		t.out.Array(2 * (len(t.Args) - 2)) // not a map, in RESP3 either: a channel may come twice
		for _, name := range t.Args[2:] {
			t.out.Bulk(name)
			t.out.Int(int64(t.s.hub.countSubscribers(s, string(name))))
		}
	}
}

// allowedWhileSubscribed are the commands that a client of RESP2 may use while it listens: it
// could not tell other answers from messages.
var allowedWhileSubscribed = map[string]bool{
	"subscribe": true, "unsubscribe": true, "psubscribe": true, "punsubscribe": true, "ssubscribe": true, "sunsubscribe": true,
	"ping": true, "quit": true, "reset": true,
}
