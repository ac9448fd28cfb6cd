package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
)

// subBatch is what a write of several keys does in one group.
type subBatch struct {
	groupHost *node.GroupHost
	request   group.Request
}

// executeJoint executes pieces of one store as one, whatever their number. cut is called
// for each attempt: which groups have the keys may have changed. The reply that
// failed is handed to judge with its piece; without one, all of them succeeded. If
// they are on several stores the error is errCrossStore.
func (db *DB) executeJoint(ctx context.Context, cut func() []subBatch, judge func(i int, err error) error) ([]command.Reply, error) {
	for attempt := 0; ; attempt++ {
		version := db.node.Map().Version()
		pieces := cut()
		if !isSingleStore(pieces) {
			return nil, errCrossStore
		}
		db.countCommit(len(pieces))
		replies, err := executeJointOnce(ctx, pieces)
		for i := range replies {
			if err == nil && replies[i].Err != nil {
				err = replies[i].Err
				if !errors.Is(err, ownership.ErrWrongGroup) {
					return replies, judge(i, err)
				}
			}
		}
		if !errors.Is(err, ownership.ErrWrongGroup) {
			return replies, err
		}
		if err := db.node.WaitForNewMap(ctx, version, attempt); err != nil {
			return nil, err
		}
	}
}

// errCrossStore means that keys are on several stores, so that it takes two phases.
var errCrossStore = errors.New("engine: the keys are on several stores")

// isSingleStore reports whether all pieces are on one store.
func isSingleStore(pieces []subBatch) bool {
	return !slices.ContainsFunc(pieces, func(p subBatch) bool { return p.groupHost.Host != pieces[0].groupHost.Host })
}

// executeJointOnce executes pieces of one store once.
func executeJointOnce(ctx context.Context, pieces []subBatch) ([]command.Reply, error) {
	if len(pieces) == 1 {
		reply, err := pieces[0].groupHost.Group.Execute(ctx, pieces[0].request)
		return []command.Reply{reply}, err
	}
	joint := make([]group.SubRequest, len(pieces))
	for i, p := range pieces {
		joint[i] = group.SubRequest{Group: p.groupHost.Group, Request: p.request}
	}
	return group.ExecuteJoint(ctx, joint)
}

// countCommit counts a transaction by how many groups of one store commit it.
func (db *DB) countCommit(groups int) {
	if groups == 1 {
		db.node.Counters.OneGroup.Add(1)
	} else {
		db.node.Counters.Joint.Add(1)
	}
}
