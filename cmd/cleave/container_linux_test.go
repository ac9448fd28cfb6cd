package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// containerBytes is the memory of the container.
const containerBytes = 512 << 20

// makeCgroup makes a cgroup of so many bytes without swap, of the version that the machine has, and returns the file
// that a process writes its id to. It skips the test where that is not allowed.
func makeCgroup(t *testing.T, memory int) string {
	t.Helper()
	for _, v := range []struct{ parent, limit, swap string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.swappiness"},
		{"/sys/fs/cgroup", "memory.max", "memory.swap.max"},
	} {
		dir := filepath.Join(v.parent, fmt.Sprintf("cleave-test-%d-%d", os.Getpid(), rand.Uint32()))
		if os.Mkdir(dir, 0o700) != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(dir) }) // the process has ended: cleanups run in reverse order
		limited := os.WriteFile(filepath.Join(dir, v.limit), []byte(strconv.Itoa(memory)), 0o600)
		if limited != nil {
			_ = os.Remove(dir)
			continue
		}
		_ = os.WriteFile(filepath.Join(dir, v.swap), []byte("0"), 0o600) // a machine without swap may not have it
		return filepath.Join(dir, "cgroup.procs")
	}
	t.Skip("no cgroup with a limit of memory can be made here: that takes root, and a hierarchy that is not read-only")
	return ""
}

// startInContainer starts a server that may take containerBytes.
func startInContainer(t *testing.T, args ...string) *redis.Client {
	t.Helper()
	if testing.Short() || raceDetector {
		t.Skip("it writes hundreds of MiB")
	}
	procs := makeCgroup(t, containerBytes)
	p := startServerBy(t, func(path string, args ...string) *osexec.Cmd {
		return osexec.Command("sh", append([]string{"-c", `echo $$ >"$0" && exec "$@"`, procs, path}, args...)...)
	}, args...)
	c := newRedisClient(p.addr)
	t.Cleanup(func() { c.Close() })
	return c
}

// fillKeys writes keys from first up to end in pipelines, with values that no compression makes smaller, and
// returns what the server refused.
func fillKeys(c *redis.Client, first, end int) error {
	rng := rand.New(rand.NewPCG(uint64(first), 1))
	for first < end {
		pipe := c.Pipeline()
		for range min(1000, end-first) {
			value := make([]byte, 64)
			for i := range value {
				value[i] = byte(rng.Uint32())
			}
			pipe.Set(ctx, fmt.Sprintf("key:%012d", first), value, 0)
			first++
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

func TestContainer_AStoreOnDiskOutgrowsItsMemory(t *testing.T) {
	c := startInContainer(t, "--data", filepath.Join(t.TempDir(), "data"), "--appendfsync", "everysec")
	const keys = 2_000_000
	if err := fillKeys(c, 0, keys); err != nil {
		t.Fatal(err)
	}
	var background sync.WaitGroup
	background.Go(func() {
		if err := fillKeys(c, 0, keys/4); err != nil {
			t.Errorf("write beside the rest: %v", err)
		}
	})
	_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for i := range 50_000 {
			p.Set(ctx, fmt.Sprint("multi:", i), bytes.Repeat([]byte{byte(i)}, 300), 0)
		}
		return nil
	})
	if err != nil {
		t.Errorf("a MULTI of 15 MB: %v", err)
	}
	large := bytes.Repeat([]byte("large value "), 1<<20)
	for i := range 4 {
		if err := c.Set(ctx, fmt.Sprint("large:", i), large, 0).Err(); err != nil {
			t.Errorf("a value of 12 MB: %v", err)
		}
	}
	if err := c.Set(ctx, "too large", bytes.Repeat(large, 4), 0).Err(); err == nil || !strings.HasPrefix(err.Error(), "OOM") {
		t.Errorf("a value of 50 MB: %v, want OOM", err)
	}
	background.Wait()
	for _, i := range []int{0, 1, keys / 2, keys - 1} {
		if v, err := c.Get(ctx, fmt.Sprintf("key:%012d", i)).Bytes(); len(v) != 64 || err != nil {
			t.Errorf("key %d: %d bytes, %v", i, len(v), err)
		}
	}
	if v, err := c.Get(ctx, "large:3").Bytes(); !bytes.Equal(v, large) || err != nil {
		t.Errorf("a large value: %d bytes, %v", len(v), err)
	}
	if n, err := c.DBSize(ctx).Result(); n != keys+50_000+4 || err != nil {
		t.Errorf("%d keys, %v", n, err)
	}
}

func TestContainer_AStoreInMemoryRefusesWritesBeforeItIsKilled(t *testing.T) {
	c := startInContainer(t, "--storage", "memory")
	err := fillKeys(c, 0, 20_000_000)
	var refused redis.Error
	if !errors.As(err, &refused) || !strings.HasPrefix(err.Error(), "OOM") {
		t.Fatalf("it is full: %v, want OOM", err)
	}
	n, err := c.DBSize(ctx).Result()
	if n < 1_000_000 || err != nil {
		t.Errorf("it was full with %d keys, %v", n, err)
	}
	if v, err := c.Get(ctx, "key:000000000001").Bytes(); len(v) != 64 || err != nil {
		t.Errorf("a key of a full store: %d bytes, %v", len(v), err)
	}
	if err := c.FlushAll(ctx).Err(); err != nil {
		t.Error(err)
	}
	eventually.Holds(t, "an empty store takes writes", func() bool { return fillKeys(c, 0, 100_000) == nil })
}
