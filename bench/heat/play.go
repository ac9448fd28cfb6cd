package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/bench/internal/serverprocess"
)

// token is that of operators of the servers that are started here, which live for minutes.
const token = "token-of-the-heat-bench"

// stage is a server with a load.
type stage struct {
	server  *serverprocess.Server
	api     string
	ops     atomic.Int64
	paused  atomic.Bool
	stopped atomic.Bool
	// pause is how long a connection waits from one pipeline to the next, in nanoseconds: see setPace.
	pause  atomic.Int64
	work   sync.WaitGroup
	failed atomic.Pointer[error]
}

// startStage starts a server with relief off, and makes the keyspace of a story.
func startStage(binary, dir string, s story) (*stage, error) {
	port, err := serverprocess.FreePort()
	if err != nil {
		return nil, err
	}
	st := &stage{api: "http://127.0.0.1:" + port + "/api/v1"}
	st.server, err = serverprocess.Launch(serverprocess.Options{
		Name: "cleave", Path: binary, Dir: dir, Env: []string{"CLEAVE_HTTP_TOKEN=" + token},
		Args: func(resp, dir string) []string {
			return []string{"serve", "--http-addr", "127.0.0.1:" + port, "--resp-addr", "127.0.0.1:" + resp, "--data", dir + "/data", "--appendfsync", "everysec"}
		},
	})
	if err == nil && s.keyspace != "" {
		err = st.post("/keyspaces/create", map[string]any{"name": s.keyspace, "kind": "range"})
	}
	if err == nil {
		err = st.setKnob("relief", "manual")
	}
	if err != nil {
		st.server.Stop()
		return nil, err
	}
	return st, nil
}

// setPace bounds the load to so many requests a second, in an open loop; 0 is without a bound.
func (st *stage) setPace(perSecond float64) {
	pause := 0.0
	if perSecond > 0 {
		pause = connections * pipeline / perSecond * float64(time.Second)
	}
	st.pause.Store(int64(pause))
}

// begin begins the load of a story.
func (st *stage) begin(s story) {
	for i := range connections {
		st.work.Go(func() {
			if err := st.load(s, uint64(i)); err != nil {
				st.failed.CompareAndSwap(nil, &err)
			}
		})
	}
}

// end ends the load and the server, and returns an error with that of the load.
func (st *stage) end(err error) error {
	st.stopped.Store(true)
	st.work.Wait()
	st.server.Stop()
	if f := st.failed.Load(); f != nil {
		err = errors.Join(err, *f)
	}
	return err
}

// play plays a story on a new server.
func play(binary, dir string, s story, progress io.Writer) (r result, err error) {
	st, err := startStage(binary, dir, s)
	if err != nil {
		return r, err
	}
	defer func() { err = st.end(err) }()
	shards, err := st.countShards()
	if err != nil {
		return r, err
	}
	began := time.Now()
	st.begin(s)
	if err := st.waitFound(s, began, &r); err != nil {
		return r, err
	}
	fmt.Fprintf(progress, "  found: %s, after %.1f s\n", r.class, r.found.Seconds())
	if r.opsBefore, r.shareBefore, err = st.measure(); err != nil {
		return r, err
	}
	if err := st.setKnob("relief", "auto"); err != nil {
		return r, err
	}
	if s.grows {
		time.Sleep(growTime) // shards are split for their size all the time
		r.notes = append(r.notes, fmt.Sprintf("Measured again after %.0f s of relief.", growTime.Seconds()))
	} else {
		took, err := st.waitStill()
		if err != nil {
			return r, err
		}
		r.notes = append(r.notes, fmt.Sprintf("%.0f s from the begin of relief to the last change of the map.", took.Seconds()))
	}
	r.afterAt = time.Since(began)
	if r.opsAfter, r.shareAfter, err = st.measure(); err != nil {
		return r, err
	}
	if err := st.describe(&r); err != nil {
		return r, err
	}
	if s.quiet {
		st.paused.Store(true)
		note, err := st.waitMerged(shards)
		if err != nil {
			return r, err
		}
		r.notes = append(r.notes, note)
	}
	return r, nil
}

// playControl plays a story on a new server with relief off all the time, and measures it when the story itself was
// measured: a store that grows for as long gets slower by itself.
func playControl(binary, dir string, s story, r *result) (err error) {
	st, err := startStage(binary, dir, s)
	if err != nil {
		return err
	}
	defer func() { err = st.end(err) }()
	began := time.Now()
	st.begin(s)
	for _, m := range []struct {
		at  time.Duration
		ops *float64
	}{{r.found, &r.controlBefore}, {r.afterAt, &r.controlAfter}} {
		time.Sleep(m.at - time.Since(began))
		if *m.ops, _, err = st.measure(); err != nil {
			return err
		}
	}
	r.notes = append(r.notes, fmt.Sprintf("The same with relief off, at the same times: %.0f → %.0f operations a second (%.2fx).", r.controlBefore, r.controlAfter, r.controlAfter/r.controlBefore))
	return nil
}

// load sends requests on a connection of its own until the stage is stopped.
func (st *stage) load(s story, seed uint64) error {
	c, err := net.Dial("tcp", "127.0.0.1:"+st.server.Port)
	if err != nil {
		return err
	}
	defer c.Close()
	in := bufio.NewReader(c)
	rng := rand.New(rand.NewPCG(1, seed))
	exchange := func(b []byte, replies int) error {
		if _, err := c.Write(b); err != nil {
			return err
		}
		for range replies {
			line, err := in.ReadString('\n') // all replies are of one line
			if err != nil {
				return err
			}
			if strings.HasPrefix(line, "-THROTTLED") {
				st.ops.Add(-1) // it came too often
				continue
			}
			if strings.HasPrefix(line, "-") {
				return errors.New(strings.TrimSpace(line))
			}
		}
		return nil
	}
	if s.keyspace != "" {
		if err := exchange(appendRequest(nil, "SELECT", s.keyspace), 1); err != nil {
			return err
		}
	}
	var b []byte
	due := time.Now()
	for sent := 0; !st.stopped.Load(); {
		if pause := time.Duration(st.pause.Load()); pause > 0 {
			time.Sleep(time.Until(due))
			due = due.Add(pause)
		} else {
			due = time.Now()
		}
		if st.paused.Load() {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		b = b[:0]
		for range pipeline {
			b = s.request(rng, sent, b)
			sent++
		}
		if err := exchange(b, pipeline); err != nil {
			if st.stopped.Load() {
				return nil
			}
			return err
		}
		st.ops.Add(pipeline)
	}
	return nil
}

// The answers of the server: the fields that are looked at.
type (
	planAnswer struct {
		Groups []struct {
			Work float64 `json:"work"`
		} `json:"groups"`
		Found []struct {
			Class    string `json:"class"`
			Evidence string `json:"evidence"`
			Key      string `json:"key"`
		} `json:"found"`
	}
	decisionAnswer struct {
		Change  string    `json:"change"`
		Reason  string    `json:"reason"`
		Outcome string    `json:"outcome"`
		Class   string    `json:"class"`
		Key     string    `json:"key"`
		Remedy  string    `json:"remedy"`
		Time    time.Time `json:"time"`
	}
)

func (st *stage) get(path string, answer any) error {
	resp, err := http.Get(st.api + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("GET %s: %s: %s", path, resp.Status, text)
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}

func (st *stage) post(path string, request any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	r, err := http.NewRequest(http.MethodPost, st.api+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("POST %s: %s: %s", path, resp.Status, text)
	}
	return nil
}

func (st *stage) setKnob(name, value string) error {
	return st.post("/knobs/set", map[string]any{"values": map[string]string{name: value}})
}

// waitFound waits until the class of the story is found.
func (st *stage) waitFound(s story, began time.Time, r *result) error {
	for time.Since(began) < maxFind {
		var p planAnswer
		if err := st.get("/plan", &p); err != nil {
			return err
		}
		for _, f := range p.Found {
			if f.Class == s.class {
				r.class, r.found = f.Class, time.Since(began)
				note := f.Evidence + "."
				if f.Key != "" {
					note = "Key `" + f.Key + "`: " + note
				}
				r.notes = append(r.notes, "Found by: "+note)
				return nil
			}
		}
		if s.class == "" && time.Since(began) > 10*time.Second {
			r.class, r.found = "-", 0
			return nil
		}
		time.Sleep(200 * time.Millisecond)
	}
	return fmt.Errorf("no %s was found within %v", s.class, maxFind)
}

// measure returns how many operations there are in a second, and the mean share of the busiest group.
func (st *stage) measure() (perSecond, share float64, err error) {
	began, ops := time.Now(), st.ops.Load()
	n := 0
	for time.Since(began) < measureTime {
		time.Sleep(time.Second)
		var p planAnswer
		if err := st.get("/plan", &p); err != nil {
			return 0, 0, err
		}
		most, sum := 0.0, 0.0
		for _, g := range p.Groups {
			most, sum = max(most, g.Work), sum+g.Work
		}
		if sum > 0 {
			share += most / sum
			n++
		}
	}
	return float64(st.ops.Load()-ops) / time.Since(began).Seconds(), share / float64(max(n, 1)), nil
}

// decisions returns all decisions, the oldest first.
func (st *stage) decisions() ([]decisionAnswer, error) {
	var page struct {
		Items []decisionAnswer `json:"items"`
	}
	err := st.get("/decisions?limit=500", &page)
	slices.Reverse(page.Items)
	return page.Items, err
}

// waitStill waits until nothing was changed for some time, and returns how long changes took.
func (st *stage) waitStill() (took time.Duration, err error) {
	began := time.Now()
	last := began
	for time.Since(last) < stillTime && time.Since(began) < maxRelief {
		all, err := st.decisions()
		if err != nil {
			return 0, err
		}
		for _, d := range all {
			if d.Change != "keep" && d.Time.After(last) {
				last = d.Time
			}
		}
		time.Sleep(500 * time.Millisecond)
	}
	return last.Sub(began), nil
}

// describe says what was changed, and what was kept and why.
func (st *stage) describe(r *result) error {
	all, err := st.decisions()
	if err != nil {
		return err
	}
	counts := map[string]int{}
	said := map[string]bool{}
	for _, d := range all {
		if d.Change != "keep" {
			if d.Change == "split" && d.Reason == "it is larger than a shard may be" {
				d.Change = "split for its size"
			}
			counts[d.Change]++
			if d.Outcome == "did not help" || d.Outcome == "refused" {
				counts[d.Outcome]++
			}
			continue
		}
		if strings.HasPrefix(d.Reason, "relief is manual") || said[d.Reason] {
			continue
		}
		said[d.Reason] = true
		note := "Left as it is: " + d.Reason
		if d.Key != "" {
			note += " (key `" + d.Key + "`)"
		}
		if d.Remedy != "" {
			note += ". Remedy: " + d.Remedy
		}
		r.notes = append(r.notes, note+".")
	}
	var parts []string
	for _, c := range []string{"split", "split for its size", "move", "merge", "throttle", "did not help", "refused"} {
		if counts[c] > 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", c, counts[c]))
		}
	}
	if r.changes = strings.Join(parts, ", "); r.changes == "" {
		r.changes = "none"
	}
	return nil
}

func (st *stage) countShards() (int, error) {
	var m struct {
		Shards []struct{} `json:"shards"`
	}
	err := st.get("/map", &m)
	return len(m.Shards), err
}

// waitMerged waits until there are no more shards than there were.
func (st *stage) waitMerged(shards int) (note string, err error) {
	began := time.Now()
	most, err := st.countShards()
	now := most
	for err == nil && now > shards && time.Since(began) < maxQuiet {
		time.Sleep(time.Second)
		now, err = st.countShards()
	}
	return fmt.Sprintf("Quiet again: of %d shards %d are left after %.0f s; there were %d before.", most, now, time.Since(began).Seconds(), shards), err
}
