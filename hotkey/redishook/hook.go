// Package redishook answers one question: which keys does a go-redis client wait for
// longest?
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	hook, err := redishook.New(detector, redishook.Options{})
//	client.AddHook(hook)
//
// A [Hook] reports commands to a [hotkey.Detector]. Those that are not chosen cost one random
// number.
//
// # What is attributed to which key
//
// A command counts for its first key, found by the position that the command has it at.
// Commands without a key, and those that wait because they are asked to, such as BLPOP or
// XREAD with BLOCK, do not count.
//
// The commands of a pipeline are answered together, so the time of each of
// them is unknown. All of its keys are given the time of the whole: that is how long the caller
// waited for them, and it compares with single commands, since the way there and back is
// most of both. A slow key makes its company look slow too; it stands out only where the
// company changes. Long pipelines take long because of their length, so those with more
// commands than Options.MaxPipeline do not count.
package redishook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave/hotkey"
)

// ErrOptions means that a hook cannot be made: the text says why.
var ErrOptions = errors.New("redishook: bad options")

// Options configure a [Hook]. The zero value works.
type Options struct {
	// MaxPipeline is the most commands of a pipeline that counts. Default 16; -1 leaves all
	// pipelines out.
	MaxPipeline int
	// Key returns the key that a command counts for, and whether it counts. Default [Key].
	Key func(redis.Cmder) (key string, ok bool)
	// Now is the clock that commands are measured with. Default time.Now.
	Now func() time.Time
}

// Hook reports the commands of a client to a detector. It is a redis.Hook, and may be added
// to any number of clients.
type Hook struct {
	d       *hotkey.Detector
	o       Options
	skipped atomic.Uint64
}

var _ redis.Hook = (*Hook)(nil)

// New returns a hook that reports to a detector.
func New(d *hotkey.Detector, o Options) (*Hook, error) {
	if d == nil {
		return nil, fmt.Errorf("%w: no detector: make one with hotkey.New", ErrOptions)
	}
	if o.MaxPipeline < -1 {
		return nil, fmt.Errorf("%w: MaxPipeline is %d: use a positive number, 0 for the default, or -1 for none", ErrOptions, o.MaxPipeline)
	}
	if o.MaxPipeline == 0 {
		o.MaxPipeline = 16
	}
	if o.Key == nil {
		o.Key = Key
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Hook{d: d, o: o}, nil
}

// SkippedPipelines returns how many pipelines were chosen and left out as too long.
func (h *Hook) SkippedPipelines() uint64 { return h.skipped.Load() }

// DialHook passes on: connections have no keys.
func (h *Hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook measures a command, if it is chosen.
func (h *Hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !h.d.Sampled() {
			return next(ctx, cmd)
		}
		start := h.o.Now()
		err := next(ctx, cmd)
		if key, ok := h.o.Key(cmd); ok {
			h.d.Record(key, h.o.Now().Sub(start))
		}
		return err
	}
}

// ProcessPipelineHook measures a pipeline, or a transaction, if it is chosen, and gives
// its time to each key of it, once.
func (h *Hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !h.d.Sampled() {
			return next(ctx, cmds)
		}
		if len(cmds) > h.o.MaxPipeline {
			h.skipped.Add(1)
			return next(ctx, cmds)
		}
		start := h.o.Now()
		err := next(ctx, cmds)
		took := h.o.Now().Sub(start)
		keys := make(map[string]bool, len(cmds))
		for _, cmd := range cmds {
			if isBlocking(cmd.Args()) {
				return err // the whole has waited for it
			}
			if key, ok := h.o.Key(cmd); ok {
				keys[key] = true
			}
		}
		for key := range keys {
			h.d.Record(key, took)
		}
		return err
	}
}

// Where the first key of a command is. Those that are not listed have it right behind
// their name, as most do.
const (
	noKey            = -1
	afterFirstCount  = -2 // behind the number of keys, which is the first argument
	afterSecondCount = -3 // which is the second
	afterStreams     = -4 // behind the word STREAMS
)

var keyPositions = map[string]int{
	"eval": afterSecondCount, "eval_ro": afterSecondCount, "evalsha": afterSecondCount, "evalsha_ro": afterSecondCount, "fcall": afterSecondCount, "fcall_ro": afterSecondCount,
	"zunion": afterFirstCount, "zinter": afterFirstCount, "zdiff": afterFirstCount, "zintercard": afterFirstCount, "sintercard": afterFirstCount, "lmpop": afterFirstCount, "zmpop": afterFirstCount,
	"bitop": 2, "object": 2, "memory": 2, "xgroup": 2, "xinfo": 2, "debug": 2,
	"xread": afterStreams, "xreadgroup": afterStreams, "migrate": 3,

	"acl": noKey, "asking": noKey, "auth": noKey, "bgrewriteaof": noKey, "bgsave": noKey, "client": noKey, "cluster": noKey, "command": noKey,
	"config": noKey, "dbsize": noKey, "discard": noKey, "echo": noKey, "exec": noKey, "failover": noKey, "flushall": noKey, "flushdb": noKey,
	"function": noKey, "hello": noKey, "info": noKey, "keys": noKey, "lastsave": noKey, "latency": noKey, "module": noKey, "monitor": noKey,
	"multi": noKey, "ping": noKey, "psubscribe": noKey, "publish": noKey, "pubsub": noKey, "punsubscribe": noKey, "quit": noKey,
	"randomkey": noKey, "readonly": noKey, "readwrite": noKey, "replicaof": noKey, "role": noKey, "save": noKey, "scan": noKey, "script": noKey,
	"select": noKey, "shutdown": noKey, "slaveof": noKey, "slowlog": noKey, "spublish": noKey, "ssubscribe": noKey, "subscribe": noKey,
	"sunsubscribe": noKey, "swapdb": noKey, "sync": noKey, "time": noKey, "unsubscribe": noKey, "unwatch": noKey, "wait": noKey, "waitaof": noKey,
}

// blockingCommands are commands that wait because they are asked to.
var blockingCommands = map[string]bool{
	"blpop": true, "brpop": true, "blmove": true, "brpoplpush": true, "blmpop": true, "bzpopmin": true, "bzpopmax": true, "bzmpop": true,
	"wait": true, "waitaof": true, "monitor": true, "subscribe": true, "psubscribe": true, "ssubscribe": true,
}

// Key returns the first key of a command. ok is false if it has none, or waits because it
// is asked to.
func Key(cmd redis.Cmder) (key string, ok bool) {
	args := cmd.Args()
	if len(args) == 0 || isBlocking(args) {
		return "", false
	}
	at := 1
	if p, listed := keyPositions[lowerArg(args[0])]; listed {
		at = p
	}
	switch at {
	case noKey:
		return "", false
	case afterFirstCount, afterSecondCount:
		count := 1
		if at == afterSecondCount {
			count = 2
		}
		if count >= len(args) || argText(args[count]) == "0" {
			return "", false
		}
		at = count + 1
	case afterStreams:
		for at = 1; at < len(args) && lowerArg(args[at]) != "streams"; at++ {
		}
		at++
	}
	if at >= len(args) {
		return "", false
	}
	return argText(args[at]), true
}

// isBlocking reports whether a command waits because it is asked to. A group or consumer of
// XREADGROUP that is named block is taken for the word.
func isBlocking(args []any) bool {
	if len(args) == 0 {
		return false
	}
	name := lowerArg(args[0])
	if name == "xread" || name == "xreadgroup" {
		for _, a := range args[1:] {
			switch lowerArg(a) {
			case "block":
				return true
			case "streams":
				return false
			}
		}
	}
	return blockingCommands[name]
}

func lowerArg(arg any) string { return strings.ToLower(argText(arg)) }

// argText is an argument as it is sent.
func argText(arg any) string {
	switch a := arg.(type) {
	case string:
		return a
	case []byte:
		return string(a)
	}
	return fmt.Sprint(arg)
}
