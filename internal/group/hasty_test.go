package group

import (
	"errors"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
)

// hasty executes commands, on one chain each second of them, and returns what became of them.
func hasty(g *Group, commands ...command.Command) (became []string) {
	var m Many
	for i, c := range commands {
		m.Add(g, Request{Command: c, Key: at("key"), Hasty: true}, uint64(1+i%2))
	}
	m.Try()
	for i := range commands {
		reply, err := m.Reply(i)
		switch err = errors.Join(err, reply.Err); {
		case errors.Is(err, ErrCold):
			became = append(became, "cold")
		case errors.Is(err, ErrBehind):
			became = append(became, "behind")
		case err != nil:
			became = append(became, err.Error())
		default:
			became = append(became, "done")
		}
	}
	return became
}

// What is in a hurry is not executed if it takes a disk, and neither is what comes behind it.
func TestAHastyRequestWaitsForNoDisk(t *testing.T) {
	d, g := openKnowing(t, Options{Alone: true})
	do(t, g, set("near", "1"))
	do(t, g, set("far", "1"))
	do(t, g, &command.HSet{Key: at("hash"), Fields: []command.FieldValue{{Field: []byte("f"), Value: []byte("1")}}})
	d.unknown[string(append(BeginRowKey(nil), at("far")...))] = true
	*d.far = true
	read := func(key string) command.Command { return &command.Get{Key: at(key)} }
	far := []command.Command{&command.Add{Key: at("far"), Delta: 1}, &command.HGetAll{Key: at("hash")}}
	for _, c := range far {
		if got := strings.Join(hasty(g, read("near"), read("near"), c, read("near"), read("near"), read("near")), " "); got != "done done cold done behind done" {
			t.Errorf("%T: %s", c, got)
		}
	}
	if got := text(t, g, "far"); got != "1" {
		t.Errorf("what was not executed has left %q", got)
	}
	g.Rehearse(&command.Add{Key: at("far"), Delta: 1})
	if got := text(t, g, "far"); got != "1" {
		t.Errorf("a rehearsal has left %q", got)
	}
	d.unknown[string(append(BeginRowKey(nil), at("far")...))] = true
	*d.far = false
	if got := strings.Join(hasty(g, far...), " "); got != "done done" {
		t.Errorf("when it is near: %s", got)
	}
	if got := text(t, g, "far"); got != "2" {
		t.Errorf("what was executed has left %q", got)
	}
}

// The answers of what is executed together are of some size.
func TestAnswersOfHastyRequestsAreBounded(t *testing.T) {
	_, g := openKnowing(t, Options{Alone: true})
	const size = 1 << 20
	do(t, g, set("large", strings.Repeat("x", size)))
	reads := make([]command.Command, 2*maxAnswerBytes/size)
	for i := range reads {
		reads[i] = &command.Get{Key: at("large")}
	}
	for range 2 { // each run has its own room
		done := 0
		for i, became := range hasty(g, reads...) {
			switch {
			case became == "done" && done == i:
				done++
			case became != "behind":
				t.Errorf("request %d: %s, behind %d that are done", i, became, done)
			}
		}
		if done < maxAnswerBytes/size || done > maxAnswerBytes/size+2 {
			t.Errorf("%d of %d are done", done, len(reads))
		}
	}
}

// So is what they read that is not in memory, though it is near.
func TestReadsOfHastyRequestsAreBounded(t *testing.T) {
	d, g := openKnowing(t, Options{Alone: true, Queue: 2 * maxNear})
	do(t, g, set("near", "1"))
	do(t, g, &command.HSet{Key: at("hash"), Fields: []command.FieldValue{{Field: []byte("f"), Value: []byte("1")}}})
	d.unknown[string(append(BeginRowKey(nil), at("near")...))] = true
	for _, c := range []struct {
		command command.Command
		most    int
	}{{&command.Get{Key: at("near")}, maxNear}, {&command.HGetAll{Key: at("hash")}, maxNear / nearScan}} {
		for range 2 { // each run has its own
			done, calls := 0, make([]command.Command, 2*maxNear)
			for i := range calls {
				calls[i] = c.command
			}
			for _, became := range hasty(g, calls...) {
				if became == "done" {
					done++
				}
			}
			if done != c.most {
				t.Errorf("%T: %d are done in one run, want %d", c.command, done, c.most)
			}
		}
	}
}
