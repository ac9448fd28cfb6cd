package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/testkit/check"
	"github.com/cleavekv/cleave/internal/testkit/check/register"
)

// config is the configuration of a child.
type config struct {
	Dir            string
	Stores, Groups int
	Durability     string
	Seed           uint64
	// Life is the number of the child: what it writes is not written by another.
	Life int
	// Last reports whether it is not killed: it works for a while, comes to rest, closes.
	Last bool
	// Patient makes the last one wait also for groups that are removed only when
	// their decisions are old.
	Patient bool
	// Contended lets clients get into each other's way, and shards be.
	Contended bool
	// Pending are requests of former lives without an answer, Answered some with one.
	Pending, Answered []request
	// Inspect makes it look at the files instead: Keys is what must be there.
	Inspect bool
	Keys    []string
}

// child is a process with a store that is worked on.
type child struct {
	config
	*eventWriter
	db            *cleave.DB
	hash, ordered *cleave.Keyspace
	// serial numbers what is written, the others the calls of a kind.
	serial, registerCalls, hashCalls, listCalls, claimCalls atomic.Uint64
	balancerJobs                                            atomic.Uint64
	// isStopping ends the work.
	isStopping atomic.Bool
	mu         sync.Mutex
	// pending are requests to be asked again, answered such as may be.
	pending, answered []request
}

var ctx = context.Background()

// childTimeout is how long a child may take, and patientTimeout one that waits for groups to
// be removed, before it counts as stuck.
const (
	childTimeout   = time.Minute
	patientTimeout = 2 * time.Minute
)

func (c *config) timeout() time.Duration {
	if c.Patient {
		return patientTimeout
	}
	return childTimeout
}

// runChild executes the commands on in until it is killed, or the end.
func runChild(in io.Reader, out io.Writer) error {
	c := &child{eventWriter: &eventWriter{out: out}}
	if err := json.NewDecoder(in).Decode(&c.config); err != nil {
		return fmt.Errorf("what to do: %w", err)
	}
	go func() { // the parent process is gone
		_, _ = io.Copy(io.Discard, in)
		os.Exit(1)
	}()
	watchdog := time.AfterFunc(c.timeout(), func() {
		stacks := make([]byte, 1<<20)
		fmt.Fprintf(os.Stderr, "stuck for %v\n%s", c.timeout(), stacks[:runtime.Stack(stacks, true)])
		os.Exit(1)
	})
	defer watchdog.Stop()
	if c.Inspect {
		return c.inspectStores()
	}
	c.pending, c.answered = c.Pending, c.Answered
	if err := c.openStore(); err != nil {
		return err
	}
	c.runWorkload()
	if err := c.waitSettled(); err != nil {
		return err
	}
	if err := c.db.Close(); err != nil {
		return err
	}
	c.writeEvent(event{Say: eventEnd})
	return nil
}

// openStore opens the store, reports what it found, and fills it at the first time.
func (c *child) openStore() error {
	d, err := cleave.ParseDurability(c.Durability)
	if err != nil {
		return err
	}
	c.writeEvent(event{Say: eventOpening})
	if c.db, err = cleave.Open(c.Dir, cleave.Options{Stores: c.Stores, Groups: c.Groups, Durability: d}); err != nil {
		return err
	}
	jobs, err := c.db.Jobs(ctx)
	if err != nil {
		return err
	}
	found := event{Say: eventOpen, Counts: c.countTxns()}
	for _, j := range jobs {
		found.Jobs = append(found.Jobs, c.toJobState(j))
	}
	c.writeEvent(found)
	for _, j := range jobs {
		if err := c.resumeJob(j); err != nil {
			return fmt.Errorf("resume job %d: %w", j.ID, err)
		}
	}
	c.hash = c.db.Default()
	if c.ordered, err = c.db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "ordered", Kind: cleave.Range}); err != nil {
		return err
	}
	return c.db.Update(ctx, func(tx *cleave.Txn) error {
		for i := range accountCount {
			ks, key := c.locateKey(accountKey(i))
			err := tx.SetWith(ks, key, formatDecimal(openingBalance), cleave.SetOptions{IfAbsent: true})
			if err != nil && !errors.Is(err, cleave.ErrNotStored) {
				return err
			}
		}
		return nil
	})
}

// resumeJob watches a job of a former life, and lets it go on if that has paused it.
func (c *child) resumeJob(s cleave.JobStatus) error {
	if s.State == cleave.JobDone || s.State == cleave.JobUndone {
		return nil
	}
	j, err := c.db.Job(ctx, s.ID)
	if err != nil {
		return err
	}
	go c.watchJob(j)
	if s.State != cleave.JobPaused {
		return nil
	}
	if err := j.Resume(ctx); !errors.Is(err, cleave.ErrJobEnded) {
		return err
	}
	return nil
}

// locateKey returns where a key is: its first letter selects the keyspace.
func (c *child) locateKey(key string) (*cleave.Keyspace, []byte) {
	if key[0] == 'h' {
		return c.hash, []byte(key)
	}
	return c.ordered, []byte(key)
}

// How many clients there are, of which some get into each other's way on purpose, and
// reshapers, and how long the last life works.
const (
	clientCount    = 7
	contenderCount = 3
	reshaperCount  = 3
	lastLifeTime   = 400 * time.Millisecond
)

// runWorkload lets clients and reshapers loose.
func (c *child) runWorkload() {
	var wg sync.WaitGroup
	first := &client{child: c, rng: rand.New(rand.NewPCG(c.Seed, 0))}
	first.readEverything()
	for i := range clientCount {
		k := &client{child: c, id: i + 1, rng: rand.New(rand.NewPCG(c.Seed, uint64(i+1))), seenRegisters: map[string]seenRegister{}}
		wg.Go(k.run)
	}
	for i := range reshaperCount {
		if c.Contended {
			break
		}
		r := &reshaper{child: c, rng: rand.New(rand.NewPCG(c.Seed, uint64(100+i)))}
		wg.Go(r.run)
	}
	wg.Go(c.runBalancer)
	wg.Go(func() {
		for !c.isStopping.Load() {
			time.Sleep(10 * time.Millisecond)
			c.writeEvent(event{Say: eventCounts, Counts: c.countTxns()})
		}
	})
	if c.Last {
		time.Sleep(lastLifeTime)
		c.isStopping.Store(true)
	}
	wg.Wait()
	c.waitLeasesEnded()
	first.readEverything()
}

func (c *child) countTxns() map[string]uint64 {
	t := c.db.Metrics().Transactions
	return map[string]uint64{
		"transactions in one group": t.OneGroup, "joint transactions": t.Joint, "two-phase transactions": t.TwoPhase,
		"jobs of the balancer": c.balancerJobs.Load(), "transactions tried again": t.Retries, "transactions in turn": t.InTurn,
	}
}

// waitSettled waits until nothing is left to do: that must not take long.
func (c *child) waitSettled() error {
	begun := time.Now()
	for {
		jobs, err := c.db.Jobs(ctx)
		if err != nil {
			return err
		}
		var open []cleave.JobStatus
		for _, j := range jobs {
			if j.State != cleave.JobDone && j.State != cleave.JobUndone && (c.Patient || j.Phase != "retiring") {
				open = append(open, j)
			}
		}
		left := c.db.Metrics().Transactions.Open
		if len(open) == 0 && left == 0 {
			for _, j := range jobs { // the last news of each
				c.writeEvent(event{Say: eventJob, Jobs: []jobState{c.toJobState(j)}})
			}
			return nil
		}
		if spent := time.Since(begun); left > 0 && spent > 30*time.Second || spent > c.timeout()*3/4 {
			c.reportTrouble("after %v there are %d transactions and these jobs: %+v", spent, left, open)
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}

// eventKind is the kind of an event.
type eventKind string

// What a child says.
const (
	eventOpening eventKind = "opening" // the store is about to be opened
	eventOpen    eventKind = "open"    // it is open; Jobs is what was found under way
	eventCall    eventKind = "call"    // a client is about to do what Call says
	eventAnswer  eventKind = "answer"  // what came of it
	eventJob     eventKind = "job"     // a job has begun, come to a phase, or ended
	eventCounts  eventKind = "counts"  // figures of this life so far
	eventTrouble eventKind = "trouble" // something that must not be
	eventEnd     eventKind = "end"     // all is closed
)

// event is a line that a child says. Its number is the time at which it happened.
type event struct {
	Say    eventKind
	Client int               `json:",omitempty"`
	Call   *clientCall       `json:",omitempty"`
	Jobs   []jobState        `json:",omitempty"`
	Counts map[string]uint64 `json:",omitempty"`
	Text   string            `json:",omitempty"`
}

// jobState is how a job stands.
type jobState struct {
	ID          uint64
	Kind, Phase string
	// Between reports whether it is a move from one store to another.
	Between bool `json:",omitempty"`
	// Ended and Undone report how it ended, Why for what reason.
	Ended, Undone bool   `json:",omitempty"`
	Why           string `json:",omitempty"`
}

// clientCall is one call of a client: one of these, with what was asked, and in an answer
// the result too. A transfer between accounts has none.
type clientCall struct {
	Status   check.Status
	Register *register.Call  `json:",omitempty"`
	Lists    *check.Txn      `json:",omitempty"`
	Bank     *check.Balances `json:",omitempty"`
	Claim    *check.Claim    `json:",omitempty"`
	Counts   []counterAdd    `json:",omitempty"`
	Change   *check.Change   `json:",omitempty"`
	Scan     *check.Scan     `json:",omitempty"`
	Lease    *lease          `json:",omitempty"`
	// Look reports whether it reads everything, and Rows what it read.
	Look bool              `json:",omitempty"`
	Rows map[string]string `json:",omitempty"`
	// Request is the request id, if it has one: then it is the same call as any other
	// with that id.
	Request string `json:",omitempty"`
	// Work is what it is counted as.
	Work string
}

// isTxn reports whether it is a transaction, often one across stores.
func (c *clientCall) isTxn() bool {
	return c.Work == "lists" || c.Work == "transfers" || c.Work == "claims"
}

// counterAdd is an addition to one of the counters.
type counterAdd struct {
	Key string
	check.Count
}

// request is a call with a request id that may be asked again.
type request struct {
	ID   string
	Keys []string
}

// eventWriter writes events. A line is one write, so that a kill cuts off at most the
// last one.
type eventWriter struct {
	mu  sync.Mutex
	out io.Writer
}

func (s *eventWriter) writeEvent(e event) {
	line, err := json.Marshal(e)
	if err != nil {
		line = fmt.Appendf(nil, `{"Say":%q,"Text":"an event cannot be told"}`, eventTrouble)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.out.Write(append(line, '\n')); err != nil {
		os.Exit(1) // the reader is gone
	}
}

func (s *eventWriter) reportTrouble(format string, args ...any) {
	s.writeEvent(event{Say: eventTrouble, Text: fmt.Sprintf(format, args...)})
}
