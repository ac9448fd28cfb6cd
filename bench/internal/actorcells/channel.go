package actorcells

import "github.com/cleavekv/cleave/bench/internal/lockmap"

// request is what a hand-written actor receives.
type request struct {
	ops     []op
	replies []uint64
	done    chan<- struct{}
}

// channelContender is a goroutine a shard that reads a channel. perOp sends
// each operation by itself and waits for its reply, as most such code does;
// else the whole batch goes to the shard of its first operation.
func channelContender(name string, entries, shards int, perOp bool) contender {
	mailboxes := make([]chan request, shards)
	for i, t := range tables(entries, shards) {
		mailboxes[i] = make(chan request, 1024)
		go serve(t, mailboxes[i])
	}
	return contender{
		name: name,
		close: func() {
			for _, m := range mailboxes {
				close(m)
			}
		},
		client: func() executor {
			done := make(chan struct{}, 1)
			return func(ops []op, replies []uint64) {
				size := len(ops)
				if perOp {
					size = 1
				}
				for i := 0; i < len(ops); i += size {
					mailboxes[shardOf(ops[i].Key, shards)] <- request{ops[i : i+size], replies[i : i+size], done}
					<-done
				}
			}
		},
	}
}

func serve(t map[uint64]uint64, mailbox <-chan request) {
	for r := range mailbox {
		for i, o := range r.ops {
			r.replies[i] = apply(t, o)
		}
		r.done <- struct{}{}
	}
}

// lockedShard takes the lock of one shard for a whole batch.
func lockedShard(entries, shards int) contender {
	locks := make([]lockmap.Padded[uint64, uint64], shards)
	for s, t := range tables(entries, shards) {
		locks[s].Init()
		for k, v := range t {
			locks[s].Store(k, v)
		}
	}
	return contender{name: "one lock a batch", client: func() executor {
		return func(ops []op, replies []uint64) {
			locks[shardOf(ops[0].Key, shards)].Do(func(t map[uint64]uint64) {
				for i, o := range ops {
					replies[i] = apply(t, o)
				}
			})
		}
	}}
}
