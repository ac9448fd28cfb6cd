package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/cleavekv/cleave/internal/check"
	"github.com/cleavekv/cleave/internal/check/register"
)

// word is the kind of an event.
type word string

// What a child says.
const (
	sayOpening word = "opening" // the store is about to be opened
	sayOpen    word = "open"    // it is open; Jobs is what was found under way
	sayCall    word = "call"    // a client is about to do what Call says
	sayAnswer  word = "answer"  // what came of it
	sayJob     word = "job"     // a job has begun, come to a phase, or ended
	sayCounts  word = "counts"  // figures of this life so far
	sayTrouble word = "trouble" // something that must not be
	sayEnd     word = "end"     // all is closed
)

// event is a line that a child says. Its number is the time at which it happened.
type event struct {
	Say    word
	Client int               `json:",omitempty"`
	Call   *call             `json:",omitempty"`
	Jobs   []job             `json:",omitempty"`
	Counts map[string]uint64 `json:",omitempty"`
	Text   string            `json:",omitempty"`
}

// job is how a job stands.
type job struct {
	ID          uint64
	Kind, Phase string
	// Between tells that it is a move from one store to another.
	Between bool `json:",omitempty"`
	// Ended and Undone tell how it ended, Why for what reason.
	Ended, Undone bool   `json:",omitempty"`
	Why           string `json:",omitempty"`
}

// call is one call of a client: one of these, with what was asked, and in an answer
// what was told too. A transfer between accounts has none.
type call struct {
	Status   check.Status
	Register *register.Call  `json:",omitempty"`
	Lists    *check.Txn      `json:",omitempty"`
	Bank     *check.Balances `json:",omitempty"`
	Claim    *check.Claim    `json:",omitempty"`
	Counts   []count         `json:",omitempty"`
	Change   *check.Change   `json:",omitempty"`
	Scan     *check.Scan     `json:",omitempty"`
	Lease    *lease          `json:",omitempty"`
	// Look tells that it reads everything, and Rows what it read.
	Look bool              `json:",omitempty"`
	Rows map[string]string `json:",omitempty"`
	// Request is the request id, if it has one: then it is the same call as any other
	// with that id.
	Request string `json:",omitempty"`
	// Work is what it is counted as.
	Work string
}

// transacts tells whether it is a transaction, often one across stores.
func (c *call) transacts() bool {
	return c.Work == "lists" || c.Work == "transfers" || c.Work == "claims"
}

// count is an addition to one of the counters.
type count struct {
	Key string
	check.Count
}

// request is a call with a request id that may be asked again.
type request struct {
	ID   string
	Keys []string
}

// speaker writes events. A line is one write, so that a kill cuts off at most the
// last one.
type speaker struct {
	mu  sync.Mutex
	out io.Writer
}

func (s *speaker) say(e event) {
	line, err := json.Marshal(e)
	if err != nil {
		line = fmt.Appendf(nil, `{"Say":%q,"Text":"an event cannot be told"}`, sayTrouble)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.out.Write(append(line, '\n')); err != nil {
		os.Exit(1) // nobody listens
	}
}

func (s *speaker) trouble(format string, args ...any) {
	s.say(event{Say: sayTrouble, Text: fmt.Sprintf(format, args...)})
}
