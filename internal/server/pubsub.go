package server

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cleavekv/cleave/internal/server/glob"
	"github.com/cleavekv/cleave/internal/server/resp"
)

// scope is a kind of subscription.
type scope uint8

const (
	byChannel scope = iota
	byPattern
	bySlot // channels that belong to slots
	scopeCount
)

// words are what clients are told, by scope.
var (
	subscribeKinds   = [scopeCount]string{"subscribe", "psubscribe", "ssubscribe"}
	unsubscribeKinds = [scopeCount]string{"unsubscribe", "punsubscribe", "sunsubscribe"}
)

// hub knows who listens to what. A message that is published reaches those who listened
// when it came, in the order of those that one client has published.
type hub struct {
	mu sync.RWMutex
	// subscribers are the clients by name, and names the names by client: one is the other
	// turned round.
	subscribers [scopeCount]map[string]map[*client]bool
	byClient    map[*client]*subscriptions
	// patternCache are the patterns that somebody listens to, nil if they have changed since.
	patternCache atomic.Pointer[[]string]
	// patternBytes is how long all patterns are together.
	patternBytes atomic.Int64
}

// subscriptions are the names that a client listens to.
type subscriptions struct {
	names [scopeCount]map[string]bool
	// memoryBytes is about how much memory they take.
	memoryBytes int
}

// subscriptionOverhead is about how much memory a name takes besides its bytes: entries of three maps.
const subscriptionOverhead = 200

// maxInlineMatchSteps is how many steps it takes at most to match a channel with all patterns where others wait:
// some milliseconds. What may take more is done by a goroutine, see isPublishSlow.
const maxInlineMatchSteps = 4 << 20

func (h *hub) init() {
	for i := range h.subscribers {
		h.subscribers[i] = map[string]map[*client]bool{}
	}
	h.byClient = map[*client]*subscriptions{}
}

// countSubscriptions is how many names a client listens to, by scope.
func (h *hub) countSubscriptions(c *client) (n [scopeCount]int) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.countSubscriptionsLocked(c)
}

func (h *hub) countSubscriptionsLocked(c *client) (n [scopeCount]int) {
	if of := h.byClient[c]; of != nil {
		for s := range of.names {
			n[s] = len(of.names[s])
		}
	}
	return n
}

// reportedCount is the number that clients are told after a change: channels and patterns
// together, those of slots apart.
func reportedCount(s scope, n [scopeCount]int) int64 {
	if s == bySlot {
		return int64(n[bySlot])
	}
	return int64(n[byChannel] + n[byPattern])
}

// subscribe lets a client listen to a name, and calls say with the number to tell while no
// message can come.
func (h *hub) subscribe(c *client, s scope, name string, say func(n int64)) {
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
		h.subscribers[s][name] = map[*client]bool{}
		h.recordPatternChange(s, len(name))
	}
	h.subscribers[s][name][c] = true
	say(reportedCount(s, h.countSubscriptionsLocked(c)))
}

// unsubscribe is the opposite of join.
func (h *hub) unsubscribe(c *client, s scope, name string, say func(n int64)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removeLocked(c, s, name)
	say(reportedCount(s, h.countSubscriptionsLocked(c)))
}

func (h *hub) removeLocked(c *client, s scope, name string) {
	of := h.byClient[c]
	if of == nil || !of.names[s][name] {
		return
	}
	delete(of.names[s], name)
	of.memoryBytes -= len(name) + subscriptionOverhead
	if len(of.names[byChannel])+len(of.names[byPattern])+len(of.names[bySlot]) == 0 {
		delete(h.byClient, c)
	}
	all := h.subscribers[s][name]
	if delete(all, c); len(all) == 0 {
		delete(h.subscribers[s], name)
		h.recordPatternChange(s, -len(name))
	}
}

// recordPatternChange notes that there is a pattern more, or less, of so many bytes. The lock is held.
func (h *hub) recordPatternChange(s scope, bytes int) {
	if s == byPattern {
		h.patternCache.Store(nil)
		h.patternBytes.Add(int64(bytes))
	}
}

// subscriptionBytes is about how much memory the names take that a client listens to.
func (h *hub) subscriptionBytes(c *client) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if of := h.byClient[c]; of != nil {
		return of.memoryBytes
	}
	return 0
}

// listPatterns are the patterns that somebody listens to.
func (h *hub) listPatterns() []string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if list := h.patternCache.Load(); list != nil {
		return *list
	}
	list := slices.Collect(maps.Keys(h.subscribers[byPattern]))
	h.patternCache.Store(&list) // nobody changes them: the lock is held
	return list
}

// listNames are the names that a client listens to.
func (h *hub) listNames(c *client, s scope) (names []string) {
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

// unsubscribeAll ends all subscriptions of a client.
func (h *hub) unsubscribeAll(c *client) {
	h.mu.Lock()
	defer h.mu.Unlock()
	of := h.byClient[c]
	if of == nil {
		return
	}
	for s := range scopeCount {
		for name := range of.names[s] {
			h.removeLocked(c, s, name)
		}
	}
}

// publish sends a message, and returns how many clients it was sent to. Patterns are matched without the
// lock: those who join and leave need not wait for that.
func (h *hub) publish(s scope, channel string, message []byte) (n int64) {
	if s == bySlot {
		return h.pushToSubscribers(s, channel, "smessage", channel, message)
	}
	n = h.pushToSubscribers(s, channel, "message", channel, message)
	for _, pattern := range h.listPatterns() {
		if glob.Match([]byte(pattern), []byte(channel)) {
			n += h.pushToSubscribers(byPattern, pattern, "pmessage", pattern, []byte(channel), message)
		}
	}
	return n
}

// pushToSubscribers sends a message to those who listen to a name.
func (h *hub) pushToSubscribers(s scope, listened, kind, name string, parts ...[]byte) (n int64) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for c := range h.subscribers[s][listened] {
		c.postPush(kind, name, parts...)
		n++
	}
	return n
}

// isPublishSlow reports whether it may take long to find those whose patterns a channel fits.
func (h *hub) isPublishSlow(channel []byte) bool {
	return int64(len(channel)+1)*h.patternBytes.Load() > maxInlineMatchSteps
}

// sendToSubscriber sends a message to one client, if it listens to a channel.
func (h *hub) sendToSubscriber(c *client, channel string, message func(dst []byte) []byte) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.subscribers[byChannel][channel][c] {
		c.postMessage(message)
	}
}

// postPush posts a message of several parts.
func (c *client) postPush(kind, name string, parts ...[]byte) {
	v := resp.Version(c.status.protocol.Load())
	c.postMessage(func(dst []byte) []byte {
		dst = v.AppendPush(dst, 2+len(parts))
		dst = resp.AppendBulk(dst, kind)
		dst = resp.AppendBulk(dst, name)
		for _, p := range parts {
			dst = resp.AppendBulk(dst, p)
		}
		return dst
	})
}

// matchNames are the names that somebody listens to, and that fit a pattern.
func (h *hub) matchNames(s scope, pattern []byte) (names []string) {
	h.mu.RLock()
	names = slices.Collect(maps.Keys(h.subscribers[s]))
	h.mu.RUnlock()
	if pattern != nil {
		names = slices.DeleteFunc(names, func(name string) bool { return !glob.Match(pattern, []byte(name)) })
	}
	slices.Sort(names)
	return names
}

// countNames is how many channels somebody listens to.
func (h *hub) countNames(s scope) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.subscribers[s])
}

// countSubscribers is how many listen to a name.
func (h *hub) countSubscribers(s scope, name string) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.subscribers[s][name])
}

// countPatterns is how many patterns somebody listens to.
func (h *hub) countPatterns() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.subscribers[byPattern])
}
