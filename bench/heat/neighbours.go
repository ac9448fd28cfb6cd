package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// neighboursAbout says what measureNeighbours measures.
const neighboursAbout = "INCR of one key without a pause, on 16 connections with 16 requests at a time; the key has a shard of its own. " +
	"Beside it single SETs of keys in two other shards of the same group, on 32 connections in an open loop at half of what " +
	"these connections can have when they are alone: each is due at its time, and its latency counts from then. The hot load is " +
	"unbounded: it takes all processor time that the server leaves, on a machine that both share, so its own rate is what it can " +
	"have and not what it needs. So there is a bounded one too, in an open loop at a quarter of what the unbounded one has had " +
	"with relief off: that much a machine with time for both serves without any relief."

const (
	neighbourConnections = 32
	neighbourTime        = 10 * time.Second
	// boundedShare is which part of the unbounded hot load the bounded one is.
	boundedShare = 4
)

// measureNeighbours measures what a saturated shard costs the others of its group, and what relief brings them. It returns lines of the
// report.
func measureNeighbours(binary, dir string, progress io.Writer) (lines []string, err error) {
	s := story{keyspace: "shop", request: func(_ *rand.Rand, _ int, b []byte) []byte { return appendRequest(b, "INCR", "stock:4711") }}
	st, err := startStage(binary, dir, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = st.end(err) }()
	if err := st.post("/shards/presplit", map[string]any{"keyspace": s.keyspace, "keys": []string{"stock:", "stock;"}}); err != nil {
		return nil, err
	}
	capacity, _, err := st.probe(s.keyspace, 0)
	if err != nil {
		return nil, err
	}
	rate := capacity / 2
	hotRate := 0.0
	line := func(name string) error {
		before, began := st.ops.Load(), time.Now()
		_, latencies, err := st.probe(s.keyspace, rate)
		if err != nil {
			return err
		}
		hotRate = float64(st.ops.Load()-before) / time.Since(began).Seconds()
		text := fmt.Sprintf("| %s | %.0f | %v | %v | %.0f |", name, rate, round(latencies, 0.5), round(latencies, 0.99), hotRate)
		fmt.Fprintln(progress, " ", text)
		lines = append(lines, text)
		return nil
	}
	if err := line("alone"); err != nil {
		return nil, err
	}
	st.begin(s)
	time.Sleep(5 * time.Second)
	if err := line("beside the hot shard, relief off"); err != nil {
		return nil, err
	}
	st.setPace(hotRate / boundedShare)
	if err := line("beside a bounded hot load, relief off"); err != nil {
		return nil, err
	}
	st.setPace(0)
	if err := st.setKnob("relief", "auto"); err != nil {
		return nil, err
	}
	stop := make(chan struct{}) // the neighbours go on, or nobody waits
	var probing sync.WaitGroup
	probing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_, _, _ = st.probe(s.keyspace, rate)
			}
		}
	})
	_, err = st.waitStill()
	close(stop)
	probing.Wait()
	if err != nil {
		return nil, err
	}
	if err := line("relief on"); err != nil {
		return nil, err
	}
	var r result
	if err := st.describe(&r); err != nil {
		return nil, err
	}
	lines = append(lines, "", "Changes of the map: "+r.changes+".")
	for _, n := range r.notes {
		lines = append(lines, "- "+n)
	}
	return lines, nil
}

// round is a quantile of latencies, which are sorted.
func round(latencies []time.Duration, q float64) time.Duration {
	if len(latencies) == 0 {
		return 0
	}
	return latencies[int(q*float64(len(latencies)-1))].Round(10 * time.Microsecond)
}

// probe writes to the neighbours at a rate, without a pause if that is 0. It returns how many writes a second were done, and
// how long after it was due each was.
func (st *stage) probe(keyspace string, rate float64) (perSecond float64, latencies []time.Duration, err error) {
	began := time.Now()
	until := began.Add(neighbourTime)
	var next atomic.Int64
	var mu sync.Mutex
	var all sync.WaitGroup
	for range neighbourConnections {
		all.Go(func() {
			own, err1 := st.probeOn(keyspace, rate, began, until, &next)
			mu.Lock()
			defer mu.Unlock()
			if latencies = append(latencies, own...); err1 != nil {
				err = err1
			}
		})
	}
	all.Wait()
	slices.Sort(latencies)
	return float64(len(latencies)) / time.Since(began).Seconds(), latencies, err
}

// probeOn writes on one connection what is due next, whatever others write.
func (st *stage) probeOn(keyspace string, rate float64, began, until time.Time, next *atomic.Int64) (latencies []time.Duration, err error) {
	c, err := net.Dial("tcp", "127.0.0.1:"+st.server.Port)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	in := bufio.NewReader(c)
	set := func(b []byte) error {
		if _, err := c.Write(b); err != nil {
			return err
		}
		reply, err := in.ReadString('\n')
		if err == nil && strings.HasPrefix(reply, "-") {
			err = fmt.Errorf("a neighbour was refused: %s", strings.TrimSpace(reply))
		}
		return err
	}
	if err := set(appendRequest(nil, "SELECT", keyspace)); err != nil {
		return nil, err
	}
	var b []byte
	value := strings.Repeat("v", 64)
	for time.Now().Before(until) {
		n := next.Add(1)
		due := time.Now()
		if rate > 0 {
			due = began.Add(time.Duration(float64(n) / rate * float64(time.Second)))
			time.Sleep(time.Until(due))
		}
		b = appendRequest(b[:0], "SET", fmt.Sprintf("%s:%06d", []string{"order", "user"}[n%2], n%100_000), value)
		if err := set(b); err != nil {
			return nil, err
		}
		latencies = append(latencies, time.Since(due))
	}
	return latencies, nil
}
