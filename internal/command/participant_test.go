package command

import (
	"errors"
	"testing"

	"github.com/cleavekv/cleave/internal/effect"
)

// keeper writes a row of a table of its own and may fail after that.
type keeper struct {
	value string
	err   error
}

var keptKey = effect.Marks.AppendKey(nil, []byte("kept"))

func (c keeper) Eval(e *Env) Reply {
	if c.value == "" {
		e.Delete(keptKey)
	} else {
		e.Put(keptKey, []byte(c.value))
	}
	return Reply{Kind: OK, Err: c.err}
}

func TestRowsOfOtherTablesAreSeenAndTakenBackLikeAnyOther(t *testing.T) {
	l := newLab(t)
	kept := func() string {
		value, ok, err := l.env.Get(keptKey, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return "none"
		}
		return string(value)
	}
	for i, step := range []struct {
		c      keeper
		commit bool
		want   string
	}{
		{keeper{"a", nil}, false, "a"},
		{keeper{"b", errors.New("fails")}, false, "a"},
		{keeper{"", errors.New("fails")}, true, "a"},
		{keeper{"b", nil}, false, "b"},
		{keeper{"", nil}, false, "none"},
		{keeper{"", nil}, true, "none"},
	} {
		l.env.Do(step.c)
		if got := kept(); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
		if step.commit {
			l.commit()
		}
		if got := kept(); got != step.want {
			t.Errorf("step %d, committed %v: %s, want %s", i, step.commit, got, step.want)
		}
	}
}

func TestEffectsOfATrialMeanTheSameWhenTheyAreDoneLater(t *testing.T) {
	l, plain := newLab(t), newLab(t)
	for _, lab := range []*lab{l, plain} {
		lab.do("set a 1", "hset h f 1 g 2")
		lab.commit()
		lab.do("set b 2")
	}
	lines := []string{"append a x", "hset h f 3", "set b 9", "set c 1 px 50", "hdel h g", "del a"}
	trial := NewEnv(l.env)
	trial.Begin(effect.Header{ClockMS: l.clock}, l.env.NextVersion())
	for _, line := range lines {
		if r := trial.Do(parse(line)); r.Err != nil {
			t.Fatalf("%s: %v", line, r.Err)
		}
		plain.do(line)
	}
	if n := l.env.Effects().Len(); n != 1 {
		t.Fatalf("the trial has left %d effects", n)
	}
	batch, err := effect.Parse(trial.Effects().Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range batch.All() {
		l.env.Redo(op)
	}
	l.env.UseVersions(trial.NextVersion())
	l.env.UseVersions(1) // never back
	if l.env.NextVersion() != plain.env.NextVersion() {
		t.Errorf("next version %d, want %d", l.env.NextVersion(), plain.env.NextVersion())
	}
	l.commit()
	plain.commit()
	for key, value := range plain.store.rows {
		if l.store.rows[key] != value {
			t.Errorf("%q is %q, want %q", key, l.store.rows[key], value)
		}
	}
	if len(l.store.rows) != len(plain.store.rows) {
		t.Errorf("%d rows, want %d", len(l.store.rows), len(plain.store.rows))
	}
}
