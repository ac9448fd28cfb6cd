package serve

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/redis"
)

// stats are what the server counts.
type stats struct {
	connections, refused, closed atomic.Uint64
	in, out                      atomic.Uint64  // bytes that came and went
	expired                      atomic.Uint64  // when it was reset
	commands                     []commandStats // by Spec.Number

	rates rates

	// measured tells whether it is counted how many calls took how long.
	measured atomic.Bool

	mu     sync.Mutex
	errors map[string]uint64 // by the word that they begin with
}

// commandStats are of one command: requests, those refused before they were begun, and those
// that failed.
type commandStats struct {
	calls, rejected, failed atomic.Uint64
	times                   times
}

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

// took notes that n calls of a command took so long each, and so long together.
func (s *stats) took(spec *redis.Spec, n int, each, together time.Duration) {
	s.commands[spec.Number].times.add(n, each, together, s.measured.Load())
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

// answered counts the answer to a request, given as it is sent, if it is an error. There is no
// command if the request was refused before it was begun.
func (s *stats) answered(spec *redis.Spec, reply []byte) {
	if !isError(reply) {
		return
	}
	if spec != nil {
		s.commands[spec.Number].failed.Add(1)
	}
	word, _, _ := bytes.Cut(bytes.TrimSuffix(reply[1:], []byte("\r\n")), []byte(" "))
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.errors[string(word)]; ok || len(s.errors) < maxErrorWords {
		s.errors[string(word)]++
	}
}

// reset is CONFIG RESETSTAT.
func (s *stats) reset(expired uint64) {
	s.expired.Store(expired)
	s.connections.Store(0)
	s.refused.Store(0)
	s.closed.Store(0)
	s.in.Store(0)
	s.out.Store(0)
	for i := range s.commands {
		c := &s.commands[i]
		c.calls.Store(0)
		c.rejected.Store(0)
		c.failed.Store(0)
		c.times.reset()
	}
	s.rates.reset(s.traffic(clock()))
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.errors)
}
