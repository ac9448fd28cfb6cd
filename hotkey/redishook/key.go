package redishook

import (
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Where the first key of a command is. Those that are not listed have it right behind
// their name, as most do.
const (
	none     = -1
	numkeys1 = -2 // behind the number of keys, which is the first argument
	numkeys2 = -3 // which is the second
	streams  = -4 // behind the word STREAMS
)

var positions = map[string]int{
	"eval": numkeys2, "eval_ro": numkeys2, "evalsha": numkeys2, "evalsha_ro": numkeys2, "fcall": numkeys2, "fcall_ro": numkeys2,
	"zunion": numkeys1, "zinter": numkeys1, "zdiff": numkeys1, "zintercard": numkeys1, "sintercard": numkeys1, "lmpop": numkeys1, "zmpop": numkeys1,
	"bitop": 2, "object": 2, "memory": 2, "xgroup": 2, "xinfo": 2, "debug": 2,
	"xread": streams, "xreadgroup": streams, "migrate": 3,

	"acl": none, "asking": none, "auth": none, "bgrewriteaof": none, "bgsave": none, "client": none, "cluster": none, "command": none,
	"config": none, "dbsize": none, "discard": none, "echo": none, "exec": none, "failover": none, "flushall": none, "flushdb": none,
	"function": none, "hello": none, "info": none, "keys": none, "lastsave": none, "latency": none, "module": none, "monitor": none,
	"multi": none, "ping": none, "psubscribe": none, "publish": none, "pubsub": none, "punsubscribe": none, "quit": none,
	"randomkey": none, "readonly": none, "readwrite": none, "replicaof": none, "role": none, "save": none, "scan": none, "script": none,
	"select": none, "shutdown": none, "slaveof": none, "slowlog": none, "spublish": none, "ssubscribe": none, "subscribe": none,
	"sunsubscribe": none, "swapdb": none, "sync": none, "time": none, "unsubscribe": none, "unwatch": none, "wait": none, "waitaof": none,
}

// waiting are commands that wait because they are asked to.
var waiting = map[string]bool{
	"blpop": true, "brpop": true, "blmove": true, "brpoplpush": true, "blmpop": true, "bzpopmin": true, "bzpopmax": true, "bzmpop": true,
	"wait": true, "waitaof": true, "monitor": true, "subscribe": true, "psubscribe": true, "ssubscribe": true,
}

// Key returns the first key of a command. ok is false if it has none, or waits because it
// is asked to.
func Key(cmd redis.Cmder) (key string, ok bool) {
	args := cmd.Args()
	if len(args) == 0 || blocks(args) {
		return "", false
	}
	at := 1
	if p, listed := positions[word(args[0])]; listed {
		at = p
	}
	switch at {
	case none:
		return "", false
	case numkeys1, numkeys2:
		count := 1
		if at == numkeys2 {
			count = 2
		}
		if count >= len(args) || text(args[count]) == "0" {
			return "", false
		}
		at = count + 1
	case streams:
		for at = 1; at < len(args) && word(args[at]) != "streams"; at++ {
		}
		at++
	}
	if at >= len(args) {
		return "", false
	}
	return text(args[at]), true
}

// blocks tells whether a command waits because it is asked to. A group or consumer of
// XREADGROUP that is named block is taken for the word.
func blocks(args []any) bool {
	if len(args) == 0 {
		return false
	}
	name := word(args[0])
	if name == "xread" || name == "xreadgroup" {
		for _, a := range args[1:] {
			switch word(a) {
			case "block":
				return true
			case "streams":
				return false
			}
		}
	}
	return waiting[name]
}

func word(arg any) string { return strings.ToLower(text(arg)) }

// text is an argument as it is sent.
func text(arg any) string {
	switch a := arg.(type) {
	case string:
		return a
	case []byte:
		return string(a)
	}
	return fmt.Sprint(arg)
}
