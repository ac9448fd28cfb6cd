package wal

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// gate is a disk whose durable writes wait to be let through.
type gate struct {
	*disk
	arrived chan int64 // offset of a write that waits
	let     chan struct{}
}

type gateFile struct {
	File
	g *gate
}

func (g *gate) Open(name string) (File, error) {
	f, err := g.disk.Open(name)
	return gateFile{f, g}, err
}

func (f gateFile) WriteDurable(p []byte, off int64) error {
	f.g.arrived <- off
	<-f.g.let
	return f.File.WriteDurable(p, off)
}

func TestTheNextFrameIsWrittenWhileOneIsPublished(t *testing.T) {
	g := &gate{newDisk(1), make(chan int64, 10), make(chan struct{})}
	publishing, goOn := make(chan string, 10), make(chan struct{})
	var inside atomic.Int32
	o := Options{FS: g, SegmentBytes: 64 * blockBytes, Publish: func(_ *Chunk, es []Entry) {
		if inside.Add(1) != 1 {
			t.Error("two calls of Publish at once")
		}
		publishing <- fmt.Sprint(len(es), " at ", es[0].Pos.offset()/blockBytes)
		<-goOn
		inside.Add(-1)
	}}
	l, err := Open(o, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	add := func() {
		wg.Go(func() {
			if _, err := l.Append(false, Entry{}); err != nil {
				t.Error(err)
			}
		})
	}
	staged := func(n int) {
		until(t, "entries are staged", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.open != nil && len(l.open.entries) == n
		})
	}
	add()
	<-g.arrived // the first is being written; those that come now share a frame
	for range 5 {
		add()
	}
	staged(5)
	g.let <- struct{}{}
	if s := <-publishing; s != "1 at 1" {
		t.Errorf("first publication: %s", s)
	}
	<-g.arrived // the second is being written while the first is published
	add()
	staged(1)
	g.let <- struct{}{}
	<-g.arrived // and the third while the second waits for its publication
	g.let <- struct{}{}
	goOn <- struct{}{}
	if s := <-publishing; s != "5 at 2" {
		t.Errorf("second publication: %s", s)
	}
	goOn <- struct{}{}
	if s := <-publishing; s != "1 at 3" {
		t.Errorf("third publication: %s", s)
	}
	goOn <- struct{}{}
	wg.Wait()
	close(g.let)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestAppendReturnsAfterItsPublicationAndInOrder(t *testing.T) {
	for _, class := range []Durability{Always, EverySec, Never} {
		published := map[string]Position{}
		var order []Position
		var mu sync.Mutex
		o := Options{FS: newDisk(2), SegmentBytes: 4 * blockBytes, Chunks: 2, Durability: class, Publish: func(_ *Chunk, es []Entry) {
			mu.Lock()
			defer mu.Unlock()
			for _, e := range es {
				published[string(e.Payload)] = e.Pos
				order = append(order, e.Pos)
			}
		}}
		var sealed []Position
		o.Seal = func(c *Chunk) {
			mu.Lock()
			defer mu.Unlock()
			if len(order) == 0 || order[len(order)-1] > c.End() {
				t.Error("sealed before its last publication, or after the next")
			}
			sealed = append(sealed, c.End())
			c.Release()
		}
		l, err := Open(o, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range 50 {
					name := fmt.Sprint(g, ".", i)
					pos, err := l.Append(false, Entry{Payload: []byte(name)})
					mu.Lock()
					if err != nil || published[name] != pos {
						t.Errorf("%s: returned %s, %v; published at %s", name, pos, err, published[name])
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if len(order) != 400 || !slices.IsSorted(order) || !slices.IsSorted(sealed) || len(sealed) < 2 {
			t.Errorf("%s: %d published, sorted %v; %d sealed", class, len(order), slices.IsSorted(order), len(sealed))
		}
	}
}

func TestASyncIsFollowedByABlockOfItsOwn(t *testing.T) {
	for _, class := range []Durability{EverySec, Never} {
		var r recorder
		o := r.options(newDisk(1))
		o.Durability = class
		l := r.start(t, o, 0)
		one, two := put(t, l, "one"), put(t, l, "two")
		if one/blockBytes != two/blockBytes {
			t.Errorf("%s: frames end at %s and %s, want them in one block", class, one, two)
		}
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		three := put(t, l, "three")
		if two/blockBytes == three/blockBytes {
			t.Errorf("%s: a frame that ends at %s shares a block with what is durable up to %s", class, three, two)
		}
		if got, _, err := readAll(l, one); err != nil || !slices.Equal(got, []string{"two", "three"}) {
			t.Errorf("%s: the feed has %q, %v", class, got, err)
		}
		stop(t, l)
	}
}
