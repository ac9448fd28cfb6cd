package server

import (
	"slices"
	"strconv"

	"github.com/cleavekv/cleave/internal/server/pubsub"
	"github.com/cleavekv/cleave/internal/server/redis"
)

func init() {
	registerHandlers(map[string]func(*call){
		"subscribe": handleSubscribe(pubsub.ByChannel), "psubscribe": handleSubscribe(pubsub.ByPattern), "ssubscribe": handleSubscribe(pubsub.BySlot),
		"unsubscribe": handleUnsubscribe(pubsub.ByChannel), "punsubscribe": handleUnsubscribe(pubsub.ByPattern), "sunsubscribe": handleUnsubscribe(pubsub.BySlot),
		"spublish":      handlePublish(pubsub.BySlot),
		"pubsub|numsub": handlePubsubNumSub(pubsub.ByChannel), "pubsub|shardnumsub": handlePubsubNumSub(pubsub.BySlot),
		"pubsub|numpat": func(t *call) { t.out.Int(int64(t.s.hub.CountPatterns())) },
		"pubsub|help": newHelpHandler("PUBSUB", "CHANNELS [<pattern>]", "    Return the currently active channels matching a <pattern> (default: '*').",
			"NUMPAT", "    Return number of subscriptions to patterns.",
			"NUMSUB [<channel> ...]", "    Return the number of subscribers for the specified channels, excluding", "    pattern subscriptions(default: no channels).",
			"SHARDCHANNELS [<pattern>]", "    Return the currently active shard level channels matching a <pattern> (default: '*').",
			"SHARDNUMSUB [<shardchannel> ...]", "    Return the number of subscribers for the specified shard level channel(s)"),
	})
	registerBlockingHandlers(map[string]func(*call){"pubsub|channels": handlePubsubChannels(pubsub.ByChannel), "pubsub|shardchannels": handlePubsubChannels(pubsub.BySlot)})
	handlers["publish"] = handler{handle: handlePublish(pubsub.ByChannel), mayBlock: func(s *Server, r *redis.Request) bool { return s.hub.IsPublishSlow(r.Args[1]) }}
}

// scopeLabels are what the names of a scope are called in errors.
var scopeLabels = [pubsub.ScopeCount]string{"channel", "pattern", "channel"}

// writeSubscription notifies a client of a change of its subscriptions.
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

func handleSubscribe(s pubsub.Scope) func(*call) {
	return func(t *call) {
		if n := t.s.hub.CountSubscriptions(&t.c.Conn); n[pubsub.ByChannel]+n[pubsub.ByPattern]+n[pubsub.BySlot]+len(t.Args)-1 > maxSubscriptions {
			t.out.Fail(redis.Error("ERR too many subscriptions: at most " + strconv.Itoa(maxSubscriptions) + " of a connection"))
			return
		}
		if err := checkNames(scopeLabels[s], t.Args[1:]...); err != nil {
			t.out.Fail(err)
			return
		}
		t.c.ReplyIsPush = true
		for _, name := range t.Args[1:] {
			t.s.hub.Subscribe(&t.c.Conn, s, string(name), func(n int64) { writeSubscription(t.out, pubsub.SubscribeKinds[s], name, n) })
		}
		t.c.subscribed = true
		t.c.Status.Subscribed.Store(true)
		t.c.nameBytes = t.s.hub.SubscriptionBytes(&t.c.Conn)
		// The user may have been changed meanwhile: then closeRevoked has not seen these names.
		if u := t.c.account.User(); !u.IsUnlimited() && slices.ContainsFunc(t.Args[1:], func(name []byte) bool { return !u.CanAccessChannel(name, s == pubsub.ByPattern) }) {
			t.c.Closing = true
		}
	}
}

func handleUnsubscribe(s pubsub.Scope) func(*call) {
	return func(t *call) {
		t.c.ReplyIsPush = true
		names := t.Args[1:]
		if len(names) == 0 {
			for _, name := range t.s.hub.ListNames(&t.c.Conn, s) {
				names = append(names, []byte(name))
			}
		}
		if len(names) == 0 {
			writeSubscription(t.out, pubsub.UnsubscribeKinds[s], nil, pubsub.ReportedCount(s, t.s.hub.CountSubscriptions(&t.c.Conn)))
		}
		for _, name := range names {
			t.s.hub.Unsubscribe(&t.c.Conn, s, string(name), func(n int64) {
				t.collectMailFirst()
				writeSubscription(t.out, pubsub.UnsubscribeKinds[s], name, n)
			})
		}
		t.c.subscribed = t.s.hub.CountSubscriptions(&t.c.Conn) != [pubsub.ScopeCount]int{}
		t.c.Status.Subscribed.Store(t.c.subscribed)
		t.c.nameBytes = t.s.hub.SubscriptionBytes(&t.c.Conn)
	}
}

func handlePublish(s pubsub.Scope) func(*call) {
	return func(t *call) {
		if err := checkNames("channel", t.Args[1]); err != nil {
			t.out.Fail(err)
			return
		}
		t.out.Int(t.s.hub.Publish(s, string(t.Args[1]), t.Args[2]))
	}
}

func handlePubsubChannels(s pubsub.Scope) func(*call) {
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
		names := t.s.hub.MatchNames(s, pattern)
		t.out.Array(len(names))
		for _, name := range names {
			t.out.Text(name)
		}
	}
}

func handlePubsubNumSub(s pubsub.Scope) func(*call) {
	return func(t *call) {
		t.out.Array(2 * (len(t.Args) - 2)) // not a map, in RESP3 either: a channel may come twice
		for _, name := range t.Args[2:] {
			t.out.Bulk(name)
			t.out.Int(int64(t.s.hub.CountSubscribers(s, string(name))))
		}
	}
}
