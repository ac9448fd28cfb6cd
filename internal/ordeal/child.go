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
)

// config is what a child is told.
type config struct {
	Dir            string
	Stores, Groups int
	Durability     string
	Seed           uint64
	// Life is the number of the child: what it writes is not written by another.
	Life int
	// Last tells that it is not killed: it works for a while, comes to rest, closes.
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
	*speaker
	db            *cleave.DB
	hash, ordered *cleave.Keyspace
	// serial numbers what is written, the others the calls of a kind.
	serial, registers, hashes, lists, claims atomic.Uint64
	// idle ends the work.
	idle atomic.Bool
	mu   sync.Mutex
	// pending are requests to be asked again, answered such as may be.
	pending, answered []request
}

var ctx = context.Background()

// patience is how long a child may take, and longPatience one that waits for groups to
// be removed, before it counts as stuck.
const (
	patience     = 20 * time.Second
	longPatience = 60 * time.Second
)

func (c *config) patience() time.Duration {
	if c.Patient {
		return longPatience
	}
	return patience
}

// runChild does what it is told on in until it is killed, or the end.
func runChild(in io.Reader, out io.Writer) error {
	c := &child{speaker: &speaker{out: out}}
	if err := json.NewDecoder(in).Decode(&c.config); err != nil {
		return fmt.Errorf("what to do: %w", err)
	}
	go func() { // whoever started it is gone
		_, _ = io.Copy(io.Discard, in)
		os.Exit(1)
	}()
	watchdog := time.AfterFunc(c.patience(), func() {
		stacks := make([]byte, 1<<20)
		fmt.Fprintf(os.Stderr, "stuck for %v\n%s", c.patience(), stacks[:runtime.Stack(stacks, true)])
		os.Exit(1)
	})
	defer watchdog.Stop()
	if c.Inspect {
		return c.inspect()
	}
	c.pending, c.answered = c.Pending, c.Answered
	if err := c.open(); err != nil {
		return err
	}
	c.work()
	if err := c.rest(); err != nil {
		return err
	}
	if err := c.db.Close(); err != nil {
		return err
	}
	c.say(event{Say: sayEnd})
	return nil
}

// open opens the store, tells what it found, and fills it at the first time.
func (c *child) open() error {
	d, err := cleave.ParseDurability(c.Durability)
	if err != nil {
		return err
	}
	c.say(event{Say: sayOpening})
	if c.db, err = cleave.Open(c.Dir, cleave.Options{Stores: c.Stores, Groups: c.Groups, Durability: d}); err != nil {
		return err
	}
	jobs, err := c.db.Jobs(ctx)
	if err != nil {
		return err
	}
	found := event{Say: sayOpen, Counts: c.counts()}
	for _, j := range jobs {
		found.Jobs = append(found.Jobs, c.noteOf(j))
	}
	c.say(found)
	for _, j := range jobs {
		if err := c.resume(j); err != nil {
			return fmt.Errorf("resume job %d: %w", j.ID, err)
		}
	}
	c.hash = c.db.Default()
	if c.ordered, err = c.db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "ordered", Kind: cleave.Range}); err != nil {
		return err
	}
	return c.db.Update(ctx, func(tx *cleave.Txn) error {
		for i := range accounts {
			ks, key := c.at(account(i))
			err := tx.SetWith(ks, key, decimal(opening), cleave.SetOptions{IfAbsent: true})
			if err != nil && !errors.Is(err, cleave.ErrNotStored) {
				return err
			}
		}
		return nil
	})
}

// resume watches a job of a former life, and lets it go on if that has paused it.
func (c *child) resume(s cleave.JobStatus) error {
	if s.State == cleave.JobDone || s.State == cleave.JobUndone {
		return nil
	}
	j, err := c.db.Job(ctx, s.ID)
	if err != nil {
		return err
	}
	go c.watch(j)
	if s.State != cleave.JobPaused {
		return nil
	}
	if err := j.Resume(ctx); !errors.Is(err, cleave.ErrJobEnded) {
		return err
	}
	return nil
}

// at returns where a key is: its first letter tells the keyspace.
func (c *child) at(key string) (*cleave.Keyspace, []byte) {
	if key[0] == 'h' {
		return c.hash, []byte(key)
	}
	return c.ordered, []byte(key)
}

// How many clients there are, of which some get into each other's way on purpose, and
// reshapers, and how long the last life works.
const (
	clients   = 7
	duelists  = 3
	reshapers = 3
	lastWork  = 400 * time.Millisecond
)

// work lets clients and reshapers loose.
func (c *child) work() {
	var wg sync.WaitGroup
	first := &client{child: c, rng: rand.New(rand.NewPCG(c.Seed, 0))}
	first.look()
	for i := range clients {
		k := &client{child: c, id: i + 1, rng: rand.New(rand.NewPCG(c.Seed, uint64(i+1))), seen: map[string]seen{}}
		wg.Go(k.run)
	}
	for i := range reshapers {
		if c.Contended {
			break
		}
		r := &reshaper{child: c, rng: rand.New(rand.NewPCG(c.Seed, uint64(100+i)))}
		wg.Go(r.run)
	}
	wg.Go(func() {
		for !c.idle.Load() {
			time.Sleep(10 * time.Millisecond)
			c.say(event{Say: sayCounts, Counts: c.counts()})
		}
	})
	if c.Last {
		time.Sleep(lastWork)
		c.idle.Store(true)
	}
	wg.Wait()
	c.expire()
	first.look()
}

func (c *child) counts() map[string]uint64 {
	t := c.db.Metrics().Transactions
	return map[string]uint64{
		"transactions in one group": t.OneGroup, "joint transactions": t.Joint, "two-phase transactions": t.TwoPhase,
		"transactions tried again": t.Retries, "transactions in turn": t.InTurn,
	}
}

// rest waits until nothing is left to do: that must not take long.
func (c *child) rest() error {
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
				c.say(event{Say: sayJob, Jobs: []job{c.noteOf(j)}})
			}
			return nil
		}
		if spent := time.Since(begun); left > 0 && spent > 10*time.Second || spent > c.patience()*3/4 {
			c.trouble("after %v there are %d transactions and these jobs: %+v", spent, left, open)
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}
