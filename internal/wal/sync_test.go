package wal

import (
	"runtime"
	"testing"
)

// syncGate is a disk whose syncs of segments wait to be let through while it is shut.
type syncGate struct {
	*disk
	arrived, let chan struct{}
	shut         chan bool
}

type syncGateFile struct {
	File
	g *syncGate
}

func (g *syncGate) Open(name string) (File, error) {
	f, err := g.disk.Open(name)
	return syncGateFile{f, g}, err
}

func (f syncGateFile) Sync() error {
	select {
	case <-f.g.shut:
		f.g.arrived <- struct{}{}
		<-f.g.let
	default:
	}
	return f.File.Sync()
}

// A Sync that comes while a chunk is ended returns when all is durable, and does
// not wait for the consumer to give a chunk back.
func TestSyncDoesNotWaitForAChunk(t *testing.T) {
	g := &syncGate{newDisk(1), make(chan struct{}), make(chan struct{}), make(chan bool, 1)}
	sealed := make(chan *Chunk, 10)
	l, err := Open(Options{
		FS: g, SegmentBytes: 4 * blockBytes, Chunks: 1, Durability: Never,
		Seal: func(c *Chunk) { sealed <- c },
	}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, l, "first")
	g.shut <- true
	appended := make(chan error, 1)
	go func() {
		_, err := l.Append(false, Entry{Payload: make([]byte, 2*blockBytes-100)})
		appended <- err
	}()
	<-g.arrived // the chunk is being ended, with a sync
	synced := make(chan error, 1)
	go func() { synced <- l.Sync() }()
	for range 100 {
		runtime.Gosched() // it waits for that, most likely
	}
	close(g.let)
	c := <-sealed // all is durable, and the consumer has the only chunk
	if err := <-synced; err != nil {
		t.Error(err)
	}
	c.Release()
	if err := <-appended; err != nil {
		t.Error(err)
	}
	go func() { (<-sealed).Release() }()
	stop(t, l)
}
