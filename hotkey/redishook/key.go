package redishook

import (
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

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
