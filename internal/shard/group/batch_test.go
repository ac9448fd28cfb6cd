package group

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/ownership"
)

// A piggybacked call that ends the batch by itself, as one does that changes the ownership table,
// leaves the calls that it was to share it with to the next one.
func TestBatch_EndsWithinPiggybackedCalls_ExecutesTheOthersNext(t *testing.T) {
	j := newJointFixture(t, 2)
	before := j.disk.commits
	ranges := []ownership.Range{servingRange("a", "b", 1)}
	for name, execute := range map[string]func() error{
		"joint":    func() error { _, err := ExecuteJoint(t.Context(), j.newTransfer(0, 1, 1)); return err },
		"pipeline": func() error { return executeSets(j, "ax", "bx") },
		"single":   func() error { return tryCommand(j.groups[0], newSet("ay", "1")) },
	} {
		next := []ownership.Range{ranges[0]} // the same span, of a later version
		next[0].Version++
		change := &ownership.ChangeOwnership{Expect: ranges, Become: next}
		if err := whilePiggybacking(t, j.groups[0], change, func() {
			if err := execute(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}); err != nil {
			t.Errorf("%s, piggybacked: %v", name, err)
		}
		ranges = next
	}
	if n := j.disk.commits - before; n != 6 {
		t.Errorf("%d writes, want 6", n)
	}
	j.checkValues(-1, 1)
}

// executeSets sets keys of several groups in one pipeline.
func executeSets(j *jointFixture, keys ...string) error {
	m := j.newPipeline(7, newSets(keys...), keys...)
	m.Execute()
	for i := range keys {
		if reply, err := m.Reply(i); err != nil || reply.Err != nil {
			return errors.Join(err, reply.Err)
		}
	}
	return nil
}

// An urgent call that was refused with others is executed alone, in a batch of several groups too.
func TestBatch_RefusedWithUrgentCalls_ExecutesThemAlone(t *testing.T) {
	j := newJointFixture(t, 2)
	j.disk.refuseButUrgent = errFull
	commands := newSets("a1", "b1")
	commands["a2"], commands["b2"] = urgentSet{newSet("a2", "a2")}, urgentSet{newSet("b2", "b2")}
	m := j.newPipeline(7, commands, "a1", "b2", "b1", "a2")
	m.Execute()
	j.checkOutcomes(m, "full done full done")
	before := j.disk.commits
	m = j.newPipeline(7, commands, "b2", "a2")
	m.Execute()
	j.checkOutcomes(m, "done done")
	if n := j.disk.commits - before; n != 1 {
		t.Errorf("urgent calls alone took %d writes, want 1", n)
	}
}

// A retry whose record is of the same batch has the outcome of the batch.
func TestBatch_WithARetryOfAJointRequest_HasOneOutcomeForBoth(t *testing.T) {
	for _, c := range []struct {
		name         string
		refuse, want error
	}{{"refused", errFull, errFull}, {"uncertain", ErrUncertain, ErrUnknown}} {
		t.Run(c.name, func(t *testing.T) {
			j := newJointFixture(t, 2)
			named := func() *jointCall {
				pieces := j.newTransfer(0, 1, 1)
				pieces[1].Request.ID = requestAt(j.nowMS, 1)
				return newJointCall(pieces)
			}
			j.disk.refuse = c.refuse
			calls := []*jointCall{named(), named()}
			executeJoint(context.Background(), calls)
			for i, call := range calls {
				if !errors.Is(call.err, c.want) {
					t.Errorf("request %d: %v, want %v", i, call.err, c.want)
				}
			}
		})
	}
}

// A batch ends after 1 MiB of effects of all groups together.
func TestBatch_OfSeveralGroups_EndsAtOneLimitForAll(t *testing.T) {
	j := newJointFixture(t, 4)
	before := j.disk.commits
	calls := make([]*jointCall, 0, 8)
	for i := range 8 {
		set := func(g int) SubRequest {
			c := &command.Set{Key: positionOf(groupLetter(g)), Value: []byte(strings.Repeat("x", maxBatchBytes/4))}
			return SubRequest{j.groups[g], Request{Command: c, Key: c.Key}}
		}
		calls = append(calls, newJointCall([]SubRequest{set(i % 4), set((i + 1) % 4)}))
	}
	executeJoint(context.Background(), calls)
	for i, c := range calls {
		if c.err != nil || c.hasFailed() {
			t.Errorf("request %d: %v %v", i, c.listReplies(), c.err)
		}
	}
	if n := j.disk.commits - before; n != 4 {
		t.Errorf("%d writes, want 4", n)
	}
}
