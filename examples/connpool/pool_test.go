package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

func newTestPool(t *testing.T, shards, perShard int, checkAfter time.Duration) (*Pool, *echoServer) {
	t.Helper()
	server, err := startEcho()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.stop)
	pool, err := NewPool(server.dial, shards, perShard, checkAfter)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pool.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return pool, server
}

// total adds up the counters of all shards.
func total(t *testing.T, pool *Pool) (sum Counters) {
	t.Helper()
	all, err := pool.Counters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		sum.Open += c.Open
		sum.Idle += c.Idle
		sum.Hits += c.Hits
		sum.Lent += c.Lent
		sum.Dials += c.Dials
		sum.Dead += c.Dead
	}
	return sum
}

func TestThePoolNeverOpensMoreThanItsLimit(t *testing.T) {
	pool, _ := newTestPool(t, 3, 2, time.Hour)
	var lent []*Conn
	for i := range 6 {
		c, err := pool.Get(t.Context(), fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		lent = append(lent, c)
	}
	if _, err := pool.Get(t.Context(), "one more"); !errors.Is(err, ErrExhausted) {
		t.Errorf("the seventh of six: %v", err)
	}
	for i, c := range lent {
		if err := pool.Put(c, i == 0); err != nil { // one is broken: its place is free
			t.Error(err)
		}
	}
	if got, want := total(t, pool), (Counters{Open: 5, Idle: 5, Dials: 6}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestAClientBorrowsFromOtherShardsBeforeItDials(t *testing.T) {
	pool, _ := newTestPool(t, 4, 1, time.Hour)
	for i := range 20 { // clients of every shard, one after the other
		if err := echo(t.Context(), pool, fmt.Sprint("client ", i)); err != nil {
			t.Fatal(err)
		}
	}
	got := total(t, pool)
	if got.Dials != 1 || got.Lent == 0 || got.Hits == 0 || got.Hits+got.Lent != 19 {
		t.Errorf("%+v", got)
	}
}

func TestConnectionsThatTheServerClosedAreNotLent(t *testing.T) {
	pool, server := newTestPool(t, 2, 2, 0)
	if err := talk(t.Context(), pool, 4, 5); err != nil {
		t.Fatal(err)
	}
	before := total(t, pool)
	server.hangUp()
	if err := talk(t.Context(), pool, 4, 5); err != nil {
		t.Fatal(err)
	}
	after := total(t, pool)
	if after.Dead == 0 || after.Dead != before.Open || after.Open > 4 {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

func TestAFailedDialGivesItsPlaceBack(t *testing.T) {
	down := errors.New("down")
	pool, err := NewPool(func(context.Context) (net.Conn, error) { return nil, down }, 1, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := pool.Get(t.Context(), "client"); !errors.Is(err, down) {
			t.Error(err)
		}
	}
	if got := total(t, pool); got.Open != 0 || got.Dials != 3 {
		t.Errorf("%+v", got)
	}
}

func TestManyClientsAtOnceAccountForEveryConnection(t *testing.T) {
	pool, _ := newTestPool(t, 4, 2, time.Hour)
	var wg sync.WaitGroup
	for i := range 16 { // twice as many as there are connections
		wg.Go(func() {
			for range 50 {
				if err := echo(t.Context(), pool, fmt.Sprint(i)); err != nil && !errors.Is(err, ErrExhausted) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := total(t, pool); got.Open > 8 || got.Idle != got.Open || got.Dials != got.Open {
		t.Errorf("%+v", got)
	}
}

func TestBadPoolsAreRefused(t *testing.T) {
	dial := func(context.Context) (net.Conn, error) { return nil, nil }
	for name, err := range map[string]error{
		"no dial":   second(NewPool(nil, 1, 1, 0)),
		"no limit":  second(NewPool(dial, 1, 0, 0)),
		"no shards": second(NewPool(dial, 0, 1, 0)),
		"negative":  second(NewPool(dial, -1, 1, 0)),
	} {
		if err == nil {
			t.Error(name)
		}
	}
}

func second(_ *Pool, err error) error { return err }

func TestTheProgramTellsItsStory(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, 8, 20); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"8 clients made 20 requests", "lent to others", "hung up"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

// countedConn says when it is closed, and that it could not be.
type countedConn struct {
	net.Conn
	closed *int
}

var errUnwilling = errors.New("unwilling")

func (c countedConn) Close() error { *c.closed++; return errUnwilling }

func TestAConnectionThatComesBackWhileThePoolClosesIsClosed(t *testing.T) {
	closed := 0
	dial := func(context.Context) (net.Conn, error) { return countedConn{closed: &closed}, nil }
	pool, err := NewPool(dial, 2, 1, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	var conns []*Conn
	for range 2 {
		c, err := pool.Get(t.Context(), "client")
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	if err := pool.Put(conns[0], false); err != nil {
		t.Fatal(err)
	}
	if err := pool.empty(t.Context()); closed != 1 || !errors.Is(err, errUnwilling) {
		t.Errorf("%d closed: %v", closed, err)
	}
	if err := pool.Put(conns[1], false); err != nil || closed != 2 {
		t.Errorf("%d closed: %v", closed, err)
	}
	if err := pool.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
