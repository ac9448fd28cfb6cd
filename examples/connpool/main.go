// Command connpool shows sharding as a pattern: a pool of network connections
// whose idle lists are actors, found by routing, with counters per shard.
//
// It starts a server on the loopback interface, lets many clients talk to it
// through the pool, then lets the server hang up on all of them, and prints what
// each shard saw.
//
//	go run ./examples/connpool
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"sync"
	"text/tabwriter"
	"time"
)

func main() {
	if err := run(context.Background(), os.Stdout, 12, 300); err != nil {
		log.Fatal(err)
	}
}

// The size of the pool: more connections than clients, so that none is refused.
const shards, perShard = 4, 4

// run is the whole story: clients each make some requests, the server hangs
// up, and they make as many again.
func run(ctx context.Context, out io.Writer, clients, requests int) error {
	server, err := startEcho()
	if err != nil {
		return err
	}
	defer server.stop()
	pool, err := NewPool(server.dial, shards, perShard, 20*time.Millisecond)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := talk(ctx, pool, clients, requests); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d clients made %d requests each over at most %d connections in %v:\n\n",
		clients, requests, shards*perShard, time.Since(start).Round(time.Millisecond))
	if err := report(ctx, out, pool); err != nil {
		return err
	}
	server.hangUp()
	time.Sleep(30 * time.Millisecond) // long enough that the pool checks
	if err := talk(ctx, pool, clients, requests); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nThe server hung up on all of them; no client noticed:\n\n")
	if err := report(ctx, out, pool); err != nil {
		return err
	}
	return pool.Close(ctx)
}

// talk lets clients send requests all at once.
func talk(ctx context.Context, pool *Pool, clients, requests int) error {
	errs := make(chan error, clients)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			name := fmt.Sprint("client ", i)
			for range requests {
				if err := echo(ctx, pool, name); err != nil {
					errs <- fmt.Errorf("%s: %w", name, err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

// echo sends a line and reads it back, on a connection of the pool.
func echo(ctx context.Context, pool *Pool, client string) error {
	c, err := pool.Get(ctx, client)
	if err != nil {
		return err
	}
	line := []byte(client)
	if _, err = c.Write(line); err == nil {
		_, err = io.ReadFull(c, line)
	}
	if err == nil && string(line) != client {
		err = fmt.Errorf("sent %q, got %q", client, line)
	}
	if putErr := pool.Put(c, err != nil); err == nil {
		err = putErr
	}
	return err
}

// report prints the counters of every shard.
func report(ctx context.Context, out io.Writer, pool *Pool) error {
	counters, err := pool.Counters(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "shard\topen\tidle\thits\tlent to others\tdials\tfound dead\t")
	for i, c := range counters {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", i, c.Open, c.Idle, c.Hits, c.Lent, c.Dials, c.Dead)
	}
	return w.Flush()
}

// echoServer sends back to every client what it sent.
type echoServer struct {
	listener net.Listener
	mu       sync.Mutex
	conns    []net.Conn
}

func startEcho() (*echoServer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &echoServer{listener: l}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // stopped
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()
	return s, nil
}

func (s *echoServer) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", s.listener.Addr().String())
}

// hangUp closes every connection from the server's side.
func (s *echoServer) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
}

func (s *echoServer) stop() {
	_ = s.listener.Close()
	s.hangUp()
}
