package redishook

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave/hotkey"
)

var background = context.Background()

func newCmd(args ...any) redis.Cmder { return redis.NewCmd(background, args...) }

func TestTheKeyOfACommandIsFoundByItsPosition(t *testing.T) {
	for _, args := range [][]any{
		{"get", "k"}, {"SET", []byte("k"), 1}, {"mget", "k", "l"}, {"eval", "return 1", 2, "k", "l"}, {"evalsha", "abc", "1", "k"},
		{"zunion", 2, "k", "l"}, {"bitop", "and", "k", "l"}, {"object", "encoding", "k"}, {"xread", "count", 1, "streams", "k", "0"},
		{"xreadgroup", "group", "g", "c", "streams", "k", ">"}, {"migrate", "host", 1, "k", 0, 1},
	} {
		if key, ok := Key(newCmd(args...)); key != "k" || !ok {
			t.Errorf("%v: %q %t, want k", args, key, ok)
		}
	}
	if key, ok := Key(newCmd("get", 7)); key != "7" || !ok {
		t.Errorf("a key that is a number: %q %t", key, ok)
	}
	for _, args := range [][]any{
		{}, {"ping"}, {"get"}, {"exec"}, {"scan", 0}, {"eval", "return 1", 0}, {"eval"}, {"zunion"}, {"xread", "streams"}, {"xread"},
		{"blpop", "k", 0}, {"xread", "block", 0, "streams", "k", "$"}, {"wait", 1, 0},
	} {
		if key, ok := Key(newCmd(args...)); ok {
			t.Errorf("%v has the key %q", args, key)
		}
	}
}

func FuzzKey(f *testing.F) {
	f.Add("eval", "x", "-1")
	f.Add("xread", "streams", "")
	f.Fuzz(func(_ *testing.T, a, b, c string) {
		Key(newCmd(a, b, c))
		Key(newCmd(a, b))
	})
}

// testClock is a clock that moves only when set.
type testClock struct{ at atomic.Int64 }

func (c *testClock) readTime() time.Time { return time.Unix(0, c.at.Load()) }

// newHookedServer is a hook in front of a server that takes as long as its keys say.
func newHookedServer(t *testing.T, o Options) (*hotkey.Detector, *Hook, redis.ProcessHook, redis.ProcessPipelineHook) {
	c := &testClock{}
	d, err := hotkey.New(hotkey.Options{Sample: 1, Now: c.readTime})
	if err != nil {
		t.Fatal(err)
	}
	o.Now = c.readTime
	h, err := New(d, o)
	if err != nil {
		t.Fatal(err)
	}
	took := func(cmd redis.Cmder) time.Duration {
		if key, _ := Key(cmd); key == "hot" {
			return 50 * time.Millisecond
		}
		return time.Millisecond
	}
	failure := errors.New("as the server says")
	one := h.ProcessHook(func(_ context.Context, cmd redis.Cmder) error {
		c.at.Add(int64(took(cmd)))
		return failure
	})
	many := h.ProcessPipelineHook(func(_ context.Context, cmds []redis.Cmder) error {
		most := time.Duration(0)
		for _, cmd := range cmds {
			most = max(most, took(cmd))
		}
		c.at.Add(int64(most))
		return failure
	})
	return d, h, one, many
}

func TestASlowKeyIsFoundInSingleCommandsAndPipelines(t *testing.T) {
	d, h, one, many := newHookedServer(t, Options{})
	others := []string{"a", "b", "c", "d"}
	for i := range 100 {
		for _, k := range others {
			if err := one(background, newCmd("get", k)); err == nil {
				t.Fatal("the error is lost")
			}
		}
		pipeline := []redis.Cmder{newCmd("multi"), newCmd("get", others[i%4]), newCmd("get", others[i%4]), newCmd("exec")}
		if i%10 == 0 {
			pipeline = append(pipeline, newCmd("get", "hot"))
		}
		if err := many(background, pipeline); err == nil {
			t.Fatal("the error is lost")
		}
		_ = one(background, newCmd("blpop", "queue", 0))
		_ = many(background, []redis.Cmder{newCmd("get", "a"), newCmd("xread", "block", 0, "streams", "hot", "$")})
	}
	for range 20 {
		_ = one(background, newCmd("get", "hot"))
	}
	r := d.Report()
	if len(r.Hot) != 1 || r.Hot[0].Key != "hot" || r.Hot[0].Samples != 30 || r.Samples != 100*4+100+10+20 {
		t.Errorf("%+v", r)
	}
	long := make([]redis.Cmder, 17)
	for i := range long {
		long[i] = newCmd("get", "a")
	}
	_ = many(background, long)
	if after := d.Report(); after.Samples != r.Samples || h.SkippedPipelines() != 1 {
		t.Errorf("a long pipeline counts: %v samples, %d skipped", after.Samples, h.SkippedPipelines())
	}
}

func TestBadHooksAreRefused(t *testing.T) {
	if _, err := New(nil, Options{}); !errors.Is(err, ErrOptions) {
		t.Error(err)
	}
	d, err := hotkey.New(hotkey.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(d, Options{MaxPipeline: -2}); !errors.Is(err, ErrOptions) {
		t.Error(err)
	}
}

// A real client and a real server, where there is one.
func TestAClientOfARealServerIsWatched(t *testing.T) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("no redis-server")
	}
	socket := t.TempDir() + "/redis"
	server := exec.Command(path, "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no")
	server.Dir = t.TempDir()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	d, err := hotkey.New(hotkey.Options{Sample: 1, MinSamples: 3})
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(d, Options{})
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, Dialer: dialUntilUp})
	defer client.Close()
	client.AddHook(h)
	for i := range 4 {
		for _, k := range []string{"a", "b", "c"} {
			if err := client.Set(background, k, i, 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		pipe := client.TxPipeline()
		pipe.Get(background, "a")
		pipe.Get(background, "b")
		if _, err := pipe.Exec(background); err != nil {
			t.Fatal(err)
		}
		if err := client.Eval(background, "return redis.call('GET', KEYS[1])", []string{"script"}).Err(); !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
	}
	// How long they took is for the machine to say.
	if r := d.Report(); r.Judged != 4 || r.Tracked != 4 || r.Samples != 4*(3+2+1) {
		t.Errorf("%+v, want samples of 4 keys", r)
	}
}

// dialUntilUp waits for a server that has just been started.
func dialUntilUp(ctx context.Context, network, addr string) (net.Conn, error) {
	for {
		c, err := net.Dial(network, addr)
		if err == nil || ctx.Err() != nil {
			return c, err
		}
		time.Sleep(5 * time.Millisecond)
	}
}
