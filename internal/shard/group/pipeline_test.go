package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
)

// newPipeline makes a list of requests of one chain, each for the group of its key's first letter.
func (j *jointFixture) newPipeline(chain uint64, commands map[string]command.Command, order ...string) *Pipeline {
	m := new(Pipeline)
	for _, k := range order {
		m.Add(j.groups[k[0]-'a'], Request{Command: commands[k], Key: positionOf(k)}, chain)
	}
	return m
}

// newSets are commands that set keys to what they are called.
func newSets(keys ...string) map[string]command.Command {
	m := map[string]command.Command{}
	for _, k := range keys {
		m[k] = newSet(k, k)
	}
	return m
}

// formatOutcomes is what became of a list, in words.
func formatOutcomes(m *Pipeline) (told []string) {
	for i := range m.Len() {
		reply, err := m.Reply(i)
		if err == nil {
			err = reply.Err
		}
		switch {
		case err == nil:
			told = append(told, "done")
		case errors.Is(err, ErrSkipped):
			told = append(told, "behind")
		case errors.Is(err, ownership.ErrWrongGroup):
			told = append(told, "elsewhere")
		case errors.Is(err, errFull):
			told = append(told, "full")
		case errors.Is(err, ErrClosed):
			told = append(told, "closed")
		case errors.Is(err, ErrUnknown):
			told = append(told, "unknown")
		case IsRetryable(err):
			told = append(told, "wait")
		default:
			told = append(told, err.Error())
		}
	}
	return told
}

func (j *jointFixture) checkOutcomes(m *Pipeline, want string) {
	j.Helper()
	if got := strings.Join(formatOutcomes(m), " "); got != want {
		j.Errorf("told %s, want %s", got, want)
	}
}

func TestRequestsOfSeveralGroupsShareAWrite(t *testing.T) {
	j := newJointFixture(t, 3)
	before := j.disk.commits
	keys := []string{"a1", "b1", "a2", "c1", "b2"}
	m := j.newPipeline(7, newSets(keys...), keys...)
	m.Add(j.groups[1], Request{Command: &command.Get{Key: positionOf("b1")}, Key: positionOf("b1")}, 7)
	m.Execute()
	j.checkOutcomes(m, "done done done done done done")
	if reply, _ := m.Reply(5); string(reply.Bytes) != "b1" {
		t.Errorf("a read finds %q of what is before it", reply.Bytes)
	}
	if n := j.disk.commits - before; n != 1 {
		t.Errorf("%d writes, want 1", n)
	}
	for i, want := range []uint64{2, 3, 1} {
		if g := j.groups[i].Metrics(); g.Commands < want {
			t.Errorf("group %d has counted %d commands, want %d", i, g.Commands, want)
		}
	}
}

// What waits in one group holds up what is behind it in others, and nothing else.
func TestAChainStopsInAllGroups(t *testing.T) {
	j := newJointFixture(t, 3)
	mustDo(t, j.groups[1], &txn.Prepare{
		ID: txn.ID{1}, CoordinatorGroup: 9, DeadlineMS: j.nowMS + 60_000,
		Participant: txn.Participant{Span: spanBetween("b", "c"), Writes: []command.Command{newSet("bl", "4")}},
	})
	m := j.newPipeline(7, newSets("a1", "bl", "c1", "b2"), "a1", "bl", "c1", "b2")
	m.Add(j.groups[2], Request{Command: newSet("c3", "c3"), Key: positionOf("c3")}, 8)
	m.Execute()
	j.checkOutcomes(m, "done wait behind behind done")
	if got := readText(t, j.groups[2], "c1"); got != "" {
		t.Errorf("c1 is %q", got)
	}
	m = j.newPipeline(7, newSets("c1", "a1"), "c1", "a1") // the next list is another matter
	m.Execute()
	j.checkOutcomes(m, "done done")
}

func TestRequestsOfSeveralGroupsOnAFullDisk(t *testing.T) {
	j := newJointFixture(t, 2)
	j.disk.refuse = errFull
	commands := newSets("a1", "b1")
	commands["a2"], commands["b2"] = &command.Get{Key: positionOf("a1")}, &command.Get{Key: positionOf("b2")}
	m := j.newPipeline(7, commands, "a1", "b1", "a2", "b2")
	m.Execute()
	j.checkOutcomes(m, "full full done done")
	if reply, _ := m.Reply(2); reply.Kind != command.Nil {
		t.Errorf("a read sees what was refused: %+v", reply)
	}
	j.disk.refuse = nil
	m.Execute()
	j.checkOutcomes(m, "done done done done")
	j.disk.refuse = ErrUncertain
	j.newPipeline(7, newSets("a3"), "a3").Execute()
	m = j.newPipeline(7, newSets("a3", "b3"), "a3", "b3")
	m.Execute()
	if got := formatOutcomes(m); got[1] == "done" {
		t.Errorf("told %v of a log that fails", got)
	}
}

// A group that can reserve no time on a full disk answers reads all the same, as it does
// those that come for it alone.
func TestReadsOfSeveralGroupsAreAnsweredWhenNoTimeCanBeReserved(t *testing.T) {
	j := newJointFixture(t, 2)
	m := j.newPipeline(7, newSets("a1", "b1"), "a1", "b1")
	m.Execute()
	j.checkOutcomes(m, "done done")
	j.disk.refuse = errFull
	j.nowMS += time.Hour.Milliseconds()
	commands := newSets("a2", "b2")
	commands["a3"], commands["b3"] = &command.Get{Key: positionOf("a1")}, &command.Get{Key: positionOf("b1")}
	m = j.newPipeline(7, commands, "a2", "b2", "a3", "b3")
	m.Execute()
	j.checkOutcomes(m, "full full done done")
	for i, want := range []string{2: "a1", 3: "b1"} {
		if reply, _ := m.Reply(i); string(reply.Bytes) != want {
			t.Errorf("request %d is answered %q, want %q", i, reply.Bytes, want)
		}
	}
	j.disk.refuse = nil
	m.Execute()
	j.checkOutcomes(m, "done done done done")
}

func TestAListGoesOnWithoutGroupsThatAreClosed(t *testing.T) {
	j := newJointFixture(t, 3)
	if err := j.groups[1].Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	m := j.newPipeline(7, newSets("a1", "b1", "c1"), "a1", "b1", "c1")
	m.Execute()
	j.checkOutcomes(m, "done closed done")
	for _, g := range []*Group{j.groups[0], j.groups[2]} {
		if err := g.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	m.Execute()
	j.checkOutcomes(m, "closed closed closed")
}

func TestWhatIsBehindARequestOfARetiredGroupWaitsForIt(t *testing.T) {
	j := newJointFixture(t, 3)
	was := servingRange(groupLetter(1), groupLetter(2), 1)
	gone := was
	gone.State, gone.Version = ownership.Foreign, 2
	replaceRange(t, j.groups[1], was, gone)
	if err := j.groups[1].Retire(context.Background()); err != nil {
		t.Fatal(err)
	}
	m := j.newPipeline(7, newSets("a1", "b1", "c1"), "a1", "b1", "c1")
	m.Add(j.groups[2], Request{Command: newSet("c2", "c2"), Key: positionOf("c2")}, 8)
	m.Execute()
	j.checkOutcomes(m, "done elsewhere behind done")
}

// A list that is too large for one batch takes several. After each the log has what comes
// first in the list, and nothing else.
func TestALongListIsWrittenInItsOrder(t *testing.T) {
	j := newJointFixture(t, 4)
	const n = 400
	m := new(Pipeline)
	key := func(i int) string { return fmt.Sprintf("%s%03d", groupLetter(i%4), i) }
	for i := range n {
		m.Add(j.groups[i%4], Request{Command: newSet(key(i), strings.Repeat("x", 20_000)), Key: positionOf(key(i))}, 7)
	}
	var torn []int
	looks := 0
	j.disk.before = func() {
		j.disk.mu.Lock()
		defer j.disk.mu.Unlock()
		looks++
		var have []bool
		for i := range n {
			_, ok := j.disk.rows[string(RowKey(append(AppendRowKeyPrefix(nil), positionOf(key(i))...)))]
			have = append(have, ok)
		}
		if first := slices.Index(have, false); first >= 0 && slices.Contains(have[first:], true) {
			torn = append(torn, first)
		}
	}
	m.Execute()
	if looks < 4 || len(torn) > 0 {
		t.Errorf("%d writes; rows are missing before others at %v", looks, torn)
	}
	for _, told := range formatOutcomes(m) {
		if told != "done" {
			t.Fatal(told)
		}
	}
}
