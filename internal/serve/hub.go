package serve

import (
	"slices"
	"strings"
	"sync"

	"github.com/cleavekv/cleave/internal/glob"
	"github.com/cleavekv/cleave/internal/resp"
)

// scope is a kind of subscription.
type scope uint8

const (
	byChannel scope = iota
	byPattern
	bySlot // channels that belong to slots
	scopes
)

// words are what clients are told, by scope.
var (
	subscribed   = [scopes]string{"subscribe", "psubscribe", "ssubscribe"}
	unsubscribed = [scopes]string{"unsubscribe", "punsubscribe", "sunsubscribe"}
)

// hub knows who listens to what. A message that is published reaches those who listened
// when it came, in the order of those that one client has published.
type hub struct {
	mu sync.RWMutex
	// listeners are the clients by name, and names the names by client: one is the other
	// turned round.
	listeners [scopes]map[string]map[*client]bool
	names     map[*client]*[scopes]map[string]bool
}

func (h *hub) init() {
	for i := range h.listeners {
		h.listeners[i] = map[string]map[*client]bool{}
	}
	h.names = map[*client]*[scopes]map[string]bool{}
}

// counts is how many names a client listens to, by scope.
func (h *hub) counts(c *client) (n [scopes]int) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.countsOf(c)
}

func (h *hub) countsOf(c *client) (n [scopes]int) {
	if of := h.names[c]; of != nil {
		for s := range of {
			n[s] = len(of[s])
		}
	}
	return n
}

// told is the number that clients are told after a change: channels and patterns
// together, those of slots apart.
func told(s scope, n [scopes]int) int64 {
	if s == bySlot {
		return int64(n[bySlot])
	}
	return int64(n[byChannel] + n[byPattern])
}

// join lets a client listen to a name, and calls say with the number to tell while no
// message can come.
func (h *hub) join(c *client, s scope, name string, say func(n int64)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	of := h.names[c]
	if of == nil {
		of = new([scopes]map[string]bool)
		h.names[c] = of
	}
	if of[s] == nil {
		of[s] = map[string]bool{}
	}
	of[s][name] = true
	if h.listeners[s][name] == nil {
		h.listeners[s][name] = map[*client]bool{}
	}
	h.listeners[s][name][c] = true
	say(told(s, h.countsOf(c)))
}

// part is the opposite of join.
func (h *hub) part(c *client, s scope, name string, say func(n int64)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.remove(c, s, name)
	say(told(s, h.countsOf(c)))
}

func (h *hub) remove(c *client, s scope, name string) {
	of := h.names[c]
	if of == nil || !of[s][name] {
		return
	}
	delete(of[s], name)
	if len(of[byChannel])+len(of[byPattern])+len(of[bySlot]) == 0 {
		delete(h.names, c)
	}
	all := h.listeners[s][name]
	if delete(all, c); len(all) == 0 {
		delete(h.listeners[s], name)
	}
}

// namesOf are the names that a client listens to.
func (h *hub) namesOf(c *client, s scope) (names []string) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if of := h.names[c]; of != nil {
		for name := range of[s] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// leave ends all subscriptions of a client.
func (h *hub) leave(c *client) {
	h.mu.Lock()
	defer h.mu.Unlock()
	of := h.names[c]
	if of == nil {
		return
	}
	for s := range scopes {
		for name := range of[s] {
			h.remove(c, s, name)
		}
	}
}

// publish sends a message, and returns how many clients it was sent to.
func (h *hub) publish(s scope, channel string, message []byte) (n int64) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	kind := "message"
	if s == bySlot {
		kind = "smessage"
	}
	for c := range h.listeners[s][channel] {
		c.push(kind, channel, message)
		n++
	}
	if s == bySlot {
		return n
	}
	for pattern, all := range h.listeners[byPattern] {
		if !glob.Match([]byte(pattern), []byte(channel)) {
			continue
		}
		for c := range all {
			c.push("pmessage", pattern, []byte(channel), message)
			n++
		}
	}
	return n
}

// tell sends a message to one client, if it listens to a channel.
func (h *hub) tell(c *client, channel string, message func(dst []byte) []byte) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.listeners[byChannel][channel][c] {
		c.post(message)
	}
}

// push posts a message of several parts.
func (c *client) push(kind, name string, parts ...[]byte) {
	v := resp.Version(c.seen.version.Load())
	c.post(func(dst []byte) []byte {
		dst = v.AppendPush(dst, 2+len(parts))
		dst = resp.AppendBulk(dst, kind)
		dst = resp.AppendBulk(dst, name)
		for _, p := range parts {
			dst = resp.AppendBulk(dst, p)
		}
		return dst
	})
}

// heard are the names that somebody listens to, and that fit a pattern.
func (h *hub) heard(s scope, pattern []byte) (names []string) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for name := range h.listeners[s] {
		if pattern == nil || glob.Match(pattern, []byte(name)) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, strings.Compare)
	return names
}

// audience is how many listen to a name.
func (h *hub) audience(s scope, name string) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.listeners[s][name])
}

// patterns is how many patterns somebody listens to.
func (h *hub) patterns() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.listeners[byPattern])
}
