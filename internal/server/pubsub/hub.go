package pubsub

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cleavekv/cleave/internal/server/glob"
	"github.com/cleavekv/cleave/internal/server/resp"
)

// Scope is a kind of subscription.
type Scope uint8

// The kinds of subscriptions.
const (
	// ByChannel is a subscription to a channel of a name.
	ByChannel Scope = iota
	// ByPattern is one to all channels whose names fit a pattern.
	ByPattern
	// BySlot is one to a channel that belongs to a slot.
	BySlot
	// ScopeCount is how many kinds there are.
	ScopeCount
)

// words are the replies to clients, by scope.
var (
	SubscribeKinds   = [ScopeCount]string{"subscribe", "psubscribe", "ssubscribe"}
	UnsubscribeKinds = [ScopeCount]string{"unsubscribe", "punsubscribe", "sunsubscribe"}
)

// Subscriber is a connection that messages are sent to. Its methods are called under the locks of this package.
type Subscriber interface {
	// ClientID is the number of the client.
	ClientID() uint64
	// Protocol is the version of the protocol that the client uses.
	Protocol() resp.Version
	// IsConnected reports whether the client is one of those that the server serves.
	IsConnected() bool
	// Post leaves a message, which message appends to dst, for the owner of the connection. It does not wait.
	Post(message func(dst []byte) []byte)
}

// Hub knows the subscribers of each name. A message that is published reaches the clients that listened
// when it came, in the order of those that one client has published.
type Hub struct {
	mu sync.RWMutex
	// subscribers are the clients by name, and names the names by client: one is the other
	// turned round.
	subscribers [ScopeCount]map[string]map[Subscriber]bool
	byClient    map[Subscriber]*subscriptions
	// patternCache are the patterns with subscribers, nil if they have changed since.
	patternCache atomic.Pointer[[]string]
	// patternBytes is how long all patterns are together.
	patternBytes atomic.Int64
}

// subscriptions are the names that a client listens to.
type subscriptions struct {
	names [ScopeCount]map[string]bool
	// MemoryBytes is about how much memory they take.
	memoryBytes int
}

// subscriptionOverhead is about how much memory a name takes besides its bytes: entries of three maps.
const subscriptionOverhead = 200

// maxInlineMatchSteps is how many steps it takes at most to match a channel with all patterns where others wait:
// some milliseconds. What may take more is done by a goroutine, see IsPublishSlow.
const maxInlineMatchSteps = 4 << 20

// NewHub returns a hub without subscribers.
func NewHub() *Hub {
	h := &Hub{byClient: map[Subscriber]*subscriptions{}}
	for i := range h.subscribers {
		h.subscribers[i] = map[string]map[Subscriber]bool{}
	}
	return h
}

// CountSubscriptions is how many names a client listens to, by scope.
func (h *Hub) CountSubscriptions(c Subscriber) (n [ScopeCount]int) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.countSubscriptionsLocked(c)
}

func (h *Hub) countSubscriptionsLocked(c Subscriber) (n [ScopeCount]int) {
	if of := h.byClient[c]; of != nil {
		for s := range of.names {
			n[s] = len(of.names[s])
		}
	}
	return n
}

// ReportedCount is the number that clients get after a change: channels and patterns
// together, those of slots apart.
func ReportedCount(s Scope, n [ScopeCount]int) int64 {
	if s == BySlot {
		return int64(n[BySlot])
	}
	return int64(n[ByChannel] + n[ByPattern])
}

// Subscribe lets a client listen to a name, and calls say with the number to tell while no
// message can come.
func (h *Hub) Subscribe(c Subscriber, s Scope, name string, say func(n int64)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	of := h.byClient[c]
	if of == nil {
		of = new(subscriptions)
		h.byClient[c] = of
	}
	if of.names[s] == nil {
		of.names[s] = map[string]bool{}
	}
	if !of.names[s][name] {
		of.names[s][name] = true
		of.memoryBytes += len(name) + subscriptionOverhead
	}
	if h.subscribers[s][name] == nil {
		h.subscribers[s][name] = map[Subscriber]bool{}
		h.recordPatternChange(s, len(name))
	}
	h.subscribers[s][name][c] = true
	say(ReportedCount(s, h.countSubscriptionsLocked(c)))
}

// Unsubscribe is the opposite of Subscribe.
func (h *Hub) Unsubscribe(c Subscriber, s Scope, name string, say func(n int64)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removeLocked(c, s, name)
	say(ReportedCount(s, h.countSubscriptionsLocked(c)))
}

func (h *Hub) removeLocked(c Subscriber, s Scope, name string) {
	of := h.byClient[c]
	if of == nil || !of.names[s][name] {
		return
	}
	delete(of.names[s], name)
	of.memoryBytes -= len(name) + subscriptionOverhead
	if len(of.names[ByChannel])+len(of.names[ByPattern])+len(of.names[BySlot]) == 0 {
		delete(h.byClient, c)
	}
	all := h.subscribers[s][name]
	if delete(all, c); len(all) == 0 {
		delete(h.subscribers[s], name)
		h.recordPatternChange(s, -len(name))
	}
}

// recordPatternChange notes that there is a pattern more, or less, of so many bytes. The lock is held.
func (h *Hub) recordPatternChange(s Scope, bytes int) {
	if s == ByPattern {
		h.patternCache.Store(nil)
		h.patternBytes.Add(int64(bytes))
	}
}

// SubscriptionBytes is about how much memory the names take that a client listens to.
func (h *Hub) SubscriptionBytes(c Subscriber) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if of := h.byClient[c]; of != nil {
		return of.memoryBytes
	}
	return 0
}

// listPatterns are the patterns with subscribers.
func (h *Hub) listPatterns() []string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if list := h.patternCache.Load(); list != nil {
		return *list
	}
	list := slices.Collect(maps.Keys(h.subscribers[ByPattern]))
	h.patternCache.Store(&list) // they do not change meanwhile: the lock is held
	return list
}

// ListNames are the names that a client listens to.
func (h *Hub) ListNames(c Subscriber, s Scope) (names []string) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if of := h.byClient[c]; of != nil {
		for name := range of.names[s] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// UnsubscribeAll ends all subscriptions of a client.
func (h *Hub) UnsubscribeAll(c Subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	of := h.byClient[c]
	if of == nil {
		return
	}
	for s := range ScopeCount {
		for name := range of.names[s] {
			h.removeLocked(c, s, name)
		}
	}
}

// Publish sends a message, and returns how many clients it was sent to. Patterns are matched without the
// lock: clients that join and leave need not wait for that.
func (h *Hub) Publish(s Scope, channel string, message []byte) (n int64) {
	if s == BySlot {
		return h.pushToSubscribers(s, channel, "smessage", channel, message)
	}
	n = h.pushToSubscribers(s, channel, "message", channel, message)
	for _, pattern := range h.listPatterns() {
		if glob.Match([]byte(pattern), []byte(channel)) {
			n += h.pushToSubscribers(ByPattern, pattern, "pmessage", pattern, []byte(channel), message)
		}
	}
	return n
}

// pushToSubscribers sends a message to the subscribers of a name.
func (h *Hub) pushToSubscribers(s Scope, listened, kind, name string, parts ...[]byte) (n int64) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for c := range h.subscribers[s][listened] {
		postPush(c, kind, name, parts...)
		n++
	}
	return n
}

// IsPublishSlow reports whether it may take long to find those whose patterns a channel fits.
func (h *Hub) IsPublishSlow(channel []byte) bool {
	return int64(len(channel)+1)*h.patternBytes.Load() > maxInlineMatchSteps
}

// sendToSubscriber sends a message to one client, if it listens to a channel.
func (h *Hub) sendToSubscriber(c Subscriber, channel string, message func(dst []byte) []byte) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.subscribers[ByChannel][channel][c] {
		c.Post(message)
	}
}

// postPush posts a message of several parts.
func postPush(c Subscriber, kind, name string, parts ...[]byte) {
	v := c.Protocol()
	c.Post(func(dst []byte) []byte {
		dst = v.AppendPush(dst, 2+len(parts))
		dst = resp.AppendBulk(dst, kind)
		dst = resp.AppendBulk(dst, name)
		for _, p := range parts {
			dst = resp.AppendBulk(dst, p)
		}
		return dst
	})
}

// MatchNames are the names with subscribers that match a pattern.
func (h *Hub) MatchNames(s Scope, pattern []byte) (names []string) {
	h.mu.RLock()
	names = slices.Collect(maps.Keys(h.subscribers[s]))
	h.mu.RUnlock()
	if pattern != nil {
		names = slices.DeleteFunc(names, func(name string) bool { return !glob.Match(pattern, []byte(name)) })
	}
	slices.Sort(names)
	return names
}

// CountNames is the number of channels with subscribers.
func (h *Hub) CountNames(s Scope) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.subscribers[s])
}

// CountSubscribers is how many listen to a name.
func (h *Hub) CountSubscribers(s Scope, name string) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.subscribers[s][name])
}

// CountPatterns is the number of patterns with subscribers.
func (h *Hub) CountPatterns() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.subscribers[ByPattern])
}
