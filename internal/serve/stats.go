package serve

import (
	"bytes"
	"sync"
	"sync/atomic"

	"github.com/cleavekv/cleave/internal/redis"
)

// stats are what the server counts.
type stats struct {
	connections, refused, closed atomic.Uint64
	commands                     []commandStats // by Spec.Number

	mu     sync.Mutex
	errors map[string]uint64 // by the word that they begin with
}

// commandStats are of one command.
type commandStats struct{ calls, rejected, failed atomic.Uint64 }

func (s *stats) init() {
	s.commands = make([]commandStats, len(redis.All()))
	s.errors = map[string]uint64{}
}

// called counts a request, or one that was refused before it was begun.
func (s *stats) called(spec *redis.Spec, refused error) {
	if refused != nil {
		s.commands[spec.Number].rejected.Add(1)
		return
	}
	s.commands[spec.Number].calls.Add(1)
}

// total is how many requests there were.
func (s *stats) total() (n uint64) {
	for i := range s.commands {
		n += s.commands[i].calls.Load()
	}
	return n
}

// maxErrorWords is how many kinds of errors are counted apart: clients choose some of
// the words.
const maxErrorWords = 128

// failed counts an error, given as it is sent.
func (s *stats) failed(reply []byte) {
	word, _, _ := bytes.Cut(bytes.TrimSuffix(reply[1:], []byte("\r\n")), []byte(" "))
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.errors[string(word)]; ok || len(s.errors) < maxErrorWords {
		s.errors[string(word)]++
	}
}

// reset is CONFIG RESETSTAT.
func (s *stats) reset() {
	s.connections.Store(0)
	s.refused.Store(0)
	s.closed.Store(0)
	for i := range s.commands {
		c := &s.commands[i]
		c.calls.Store(0)
		c.rejected.Store(0)
		c.failed.Store(0)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.errors)
}
