package server

import (
	"strconv"

	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/shard/command"
)

func init() {
	registerHandlers(map[string]func(*call){"multi": handleMulti, "discard": handleDiscard, "unwatch": handleUnwatch})
	registerBlockingHandlers(map[string]func(*call){"watch": handleWatch})
}

func handleMulti(t *call) {
	if t.c.queue != nil {
		t.out.Fail(redis.Error("ERR MULTI calls can not be nested"))
		return
	}
	t.c.queue = &multiQueue{keyspace: t.c.keyspace}
	t.out.OK()
}

func handleDiscard(t *call) {
	if t.c.queue == nil {
		t.out.Fail(redis.Error("ERR DISCARD without MULTI"))
		return
	}
	t.c.queue = nil
	t.c.clearWatched()
	t.out.OK()
}

func handleUnwatch(t *call) {
	t.c.clearWatched()
	t.out.OK()
}

// handleWatch notes the versions of keys.
func handleWatch(t *call) {
	if t.c.queue != nil {
		t.out.Fail(redis.Error("ERR WATCH inside MULTI is not allowed"))
		return
	}
	for _, key := range t.Args[1:] {
		if err := command.CheckKey(key); err != nil {
			t.out.Fail(err)
			return
		}
		if t.c.isWatched(t.c.keyspace, key) {
			continue
		}
		if len(t.c.watchedKeys) == maxWatchedKeys {
			t.out.Fail(redis.Error("ERR too many watched keys: at most " + strconv.Itoa(maxWatchedKeys)))
			return
		}
		version, err := t.s.readVersion(t.ctx, t.c.keyspace, key)
		if err == nil {
			err = t.ctx.Err()
		}
		if err != nil {
			t.out.Fail(err)
			return
		}
		t.c.addWatched(watchedKey{t.c.keyspace, key, version})
	}
	t.out.OK()
}
